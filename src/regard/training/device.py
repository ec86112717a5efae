"""The device, the precision and the threads of a run, and its processes under `torchrun`.

In data-parallel training, the batch size is that of all processes together: with N processes, each takes
every N-th sentence of a batch. The order and the sizes of the batches are functions of the seed, so that
every process computes the number of tokens of a step without communication.
"""

import ctypes
import gc
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from regard.cpu_threads import num_available_cpus
from regard.errors import DeviceError
from regard.kernels.matmul import limit_kernel_caches
from regard.models.precision import Precision

__all__ = [
    "SINGLE_PROCESS",
    "ProcessGroup",
    "autocast",
    "init_process_group",
    "pick_device",
    "process_rank",
    "release_unused_memory",
    "set_num_threads",
]


def _trim() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`, or None with another C library."""
    try:
        # `CDLL(None)` contains the symbols of the loaded libraries. Windows raises TypeError for None.
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


_TRIM = _trim()


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


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Return a context in which matrix multiplications are computed in the given precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


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


TIMEOUT = timedelta(hours=1)
"""Maximum time that a process waits for the others; the first one alone translates the validation split."""


@dataclass(frozen=True)
class ProcessGroup:
    """The rank of this process, the number of processes and the device.

    Attributes:
        rank: The number of this process, from 0.
        world_size: The number of processes of the run.
        device: The device of this process.
    """

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def shard(self, rows: np.ndarray) -> np.ndarray:
        """Return this process's share of the rows of a batch; it may be empty."""
        return rows[self.rank :: self.world_size]

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all processes, bitwise identical in each."""
        if self.world_size == 1:
            return list(values)
        # In float64, numbers of tokens are exact up to 2**53.
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def broadcast_from_main(self, value: float) -> float:
        """Return the value of the first process."""
        # A sum with zeros is exact, so all processes receive the same value bit for bit.
        return self.sum([value if self.is_main else 0.0])[0]

    def barrier(self) -> None:
        """Wait until every process has called this method."""
        # The reduction ends only when every process has contributed to it.
        self.sum([0.0])


SINGLE_PROCESS = ProcessGroup()


def process_rank() -> int:
    """Return the rank of this process under torchrun, else 0; available before `init_process_group`."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def init_process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Initialize the process group under `torchrun`, and destroy it at the end of the context.

    Args:
        device: The device of this process; the backend is gloo for CPUs and NCCL for GPUs.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ProcessGroup(device=device)
        return
    if device.type == "cuda":
        # Otherwise the first GPU would be the current device of every process.
        torch.cuda.set_device(device)
    # `DistributedDataParallel` imports this module, whose functions have the current default group as default
    # argument: imported later, they would keep the group, and with it its threads, to the end of the program.
    importlib.import_module("torch.distributed.nn.functional")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), device)
    finally:
        # The threads of a process group are joined only when the last reference to it is gone. A thread that
        # still frees a tensor while the interpreter exits aborts the process.
        gc.collect()
        dist.destroy_process_group()
