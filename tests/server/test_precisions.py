"""The precision that served models search in."""

from pathlib import Path

import pytest

from regard.errors import UsageError
from regard.server.engine import load_engines


def test_an_unknown_precision_is_named_before_any_model_is_read() -> None:
    with pytest.raises(UsageError, match="'float8': expected float32, bfloat16 or int8"):
        load_engines([Path("nowhere")], "cpu", "float8")
