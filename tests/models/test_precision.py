"""Tests of the precision of a model's matrix multiplications."""

import pytest
import torch
from wirings import build, config

from regard.errors import UsageError
from regard.models.base import parse_precision, set_precision


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_precision_is_the_dtype_of_all_parameters(name, dtype) -> None:
    model = build(config())
    set_precision(model, parse_precision(name))
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


def test_unknown_precision_raises_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="'float8': expected float32 or bfloat16"):
        parse_precision("float8")
