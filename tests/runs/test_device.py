"""Tests of device selection and automatic mixed precision."""

import pytest
import torch

from regard.errors import DeviceError
from regard.runs.device import pick_device
from regard.training.run_context import autocast


@pytest.mark.parametrize("name", ["cuda:99", "toaster", "mps", "cuda:x"])
def test_missing_devices_are_reported(name: str) -> None:
    with pytest.raises(DeviceError, match=name):
        pick_device(name)
    assert pick_device("auto").type in ("cpu", "cuda")


def test_autocast_sets_the_precision_of_matrix_multiplications() -> None:
    x = torch.ones(2, 2)
    with autocast(torch.device("cpu"), "bfloat16"):
        assert (x @ x).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert (x @ x).dtype == torch.float32
