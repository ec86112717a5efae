import pytest
import torch

from regard.errors import DeviceError
from regard.training.device import autocast, pick_device


@pytest.mark.parametrize("name", ["cuda:99", "toaster", "mps", "cuda:x"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(DeviceError, match=name):
        pick_device(name)


def test_the_cpu_is_always_there() -> None:
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type in ("cpu", "cuda")


def test_precision_is_that_of_products_inside_the_context() -> None:
    x = torch.ones(2, 2)
    with autocast(torch.device("cpu"), "bfloat16"):
        assert (x @ x).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert (x @ x).dtype == torch.float32
