"""The processes of one run: under `torchrun` several, else one.

A batch is the batch of all processes together, whatever their number: each takes every n-th sentence. Data
order and sizes are functions of the seed, so every process knows the tokens of an update without asking.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

__all__ = ["ALONE", "Processes", "join", "process_rank"]

TIMEOUT = timedelta(hours=1)
"""How long a process waits for the others: longer than the first one's search on a validation split."""


@dataclass(frozen=True)
class Processes:
    """This process among those of the run.

    Attributes:
        rank: Its number, from 0.
        count: How many there are.
        device: Where it computes.
    """

    rank: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes files and talks."""
        return self.rank == 0

    def share(self, rows: np.ndarray) -> np.ndarray:
        """This process's share of the rows of a batch; it may be empty."""
        return rows[self.rank :: self.count]

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums over all processes, the same bits on each."""
        if self.count == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def from_main(self, value: float) -> float:
        """The first process's number."""
        return self.sum([value if self.is_main else 0.0])[0]

    def wait(self) -> None:
        """Wait until every process is here."""
        self.sum([0.0])


ALONE = Processes()


def process_rank() -> int:
    """This process's number under torchrun, else 0; known before the processes are joined."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def join(device: torch.device) -> Iterator[Processes]:
    """Join the other processes of a `torchrun`, and leave them at the end.

    Args:
        device: Where this process computes: gloo connects CPUs, NCCL GPUs.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(device=device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), device)
    finally:
        # A group is only taken down, its threads joined, once nothing else holds it; a thread that still
        # lets go of a tensor while the interpreter ends aborts the process.
        gc.collect()
        dist.destroy_process_group()
