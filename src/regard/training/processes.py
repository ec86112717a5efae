"""The processes of a run under `torchrun`, and the precision of their matrix multiplications.

In data-parallel training, the batch size is that of all processes together: with N processes, each takes
every N-th sentence of a batch. The order and the sizes of the batches are functions of the seed, so that
every process computes the number of tokens of a step without communication.
"""

import gc
import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from regard.models.base import Precision

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "autocast", "init_process_group"]


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Return a context in which matrix multiplications are computed in the given precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


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
