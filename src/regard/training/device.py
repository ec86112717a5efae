"""Where and in what precision a model runs."""

import ctypes
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

from regard.errors import DeviceError
from regard.kernels.products import bound_memory
from regard.processors import available_processors

__all__ = ["Precision", "autocast", "give_back_memory", "pick_device", "use_threads"]

Precision = Literal["float32", "bfloat16"]


def _trim() -> Callable[[int], object] | None:
    """Glibc's `malloc_trim`, where the C library is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


_TRIM = _trim()


def give_back_memory() -> None:
    """Give free memory between live tensors back to the system.

    Batches come in hundreds of shapes, and what one leaves rarely fits the next.
    """
    if _TRIM is not None:
        _TRIM(0)


def pick_device(name: str) -> torch.device:
    """The device of a name; under torchrun each process of a machine gets a GPU of its own.

    Args:
        name: `auto` (a GPU if there is one, else the CPU), `cpu`, `cuda`, `cuda:1`...

    Raises:
        DeviceError: if there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"device {name!r}: no such device; expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cpu":
        bound_memory()
        return device
    if device.type != "cuda":
        raise DeviceError(f"device {name!r}: not supported; expected auto, cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
    if number >= count:
        there = f"there are {count} GPUs, from cuda:0 on" if count else "no GPU can be used here"
        raise DeviceError(f"device {name!r}: cuda:{number} is not there: {there}; try device=cpu")
    return torch.device("cuda", number)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """A context in which products are made in a precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def use_threads(count: int | None) -> None:
    """Use this many threads for products on the CPU.

    Args:
        count: How many; none: as many as before, but no more than there are processors that the process may
            use, unless `OMP_NUM_THREADS` says how many.
    """
    if count is None and not os.environ.get("OMP_NUM_THREADS"):
        count = min(torch.get_num_threads(), available_processors())
    if count is not None:
        torch.set_num_threads(count)
