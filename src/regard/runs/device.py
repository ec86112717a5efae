"""The device and the number of threads of a model, and the memory of the process."""

import ctypes
import os

import torch

from regard.config.cpu_threads import num_available_cpus
from regard.errors import DeviceError
from regard.kernels.matmul import limit_kernel_caches

# `CDLL(None)` contains the symbols of the loaded libraries. Only glibc has this function.
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_unused_memory() -> None:
    """Return freed heap memory to the operating system.

    Batches come in hundreds of shapes, so that a freed block rarely fits the next batch and the heap grows.
    """
    if _TRIM is not None:
        _TRIM(0)


def pick_device(name: str) -> torch.device:
    """Return the device of the given name; under torchrun each process of a machine gets its own GPU.

    Args:
        name: `auto` (a GPU if there is one, else the CPU), `cpu`, `cuda`, or `cuda:N`, counted from 0.

    Raises:
        DeviceError: if there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"device {name!r} does not exist; expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cpu":
        limit_kernel_caches()
        return device
    if device.type != "cuda":
        raise DeviceError(f"device {name!r} is not supported; expected auto, cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
    if number >= count:
        there = f"the GPUs are cuda:0 to cuda:{count - 1}" if count else "PyTorch found no usable GPU"
        raise DeviceError(f"device {name!r}: cuda:{number} is not available: {there}; try device=cpu")
    return torch.device("cuda", number)


def set_num_threads(num_threads: int | None) -> None:
    """Set the number of threads for matrix multiplications on the CPU.

    Args:
        num_threads: The number of threads. None keeps PyTorch's number, but limits it to the number of
            processors that the process may use if `OMP_NUM_THREADS` is not set.
    """
    if num_threads is None and not os.environ.get("OMP_NUM_THREADS"):
        num_threads = min(torch.get_num_threads(), num_available_cpus())
    if num_threads is not None:
        torch.set_num_threads(num_threads)
