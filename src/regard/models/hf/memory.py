"""Comparison of a model's size with the memory that is available, before the weights are loaded."""

from contextlib import suppress
from pathlib import Path

from regard.errors import CheckpointError

__all__ = ["available_memory", "check_memory"]

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
BYTES_PER_PARAMETER = 4  # models are loaded in float32


def available_memory() -> int | None:
    """Return the main memory that a process can allocate, in bytes; None if the system does not report it.

    The smaller of the memory of the machine and of the limit of the container (control group, version 2).
    """
    found: list[int] = []
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        # Without a limit, the file contains `max`, which is not a number.
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        found.append(limit - used)
    return min(found, default=None)


def check_memory(directory: Path, num_parameters: int) -> None:
    """Check that a model fits into memory.

    Args:
        directory: The directory of the model, for the message.
        num_parameters: The number of parameters, from the headers of the weight files.

    Raises:
        CheckpointError: if it does not; the message names both sizes.
    """
    needed, available = num_parameters * BYTES_PER_PARAMETER, available_memory()
    if available is not None and needed > available:
        raise CheckpointError(
            f"{directory}: the model has {num_parameters:,} parameters and needs "
            f"{_gigabytes(needed)} of memory in float32, but {_gigabytes(available)} are available; "
            "use a smaller model, or a machine with more memory"
        )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
