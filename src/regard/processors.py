"""How many processors this process may use, and how OpenMP's threads wait for each other on them.

PyTorch, MKL and the compiled kernels of `regard.kernels` share one pool of OpenMP threads. Between two pieces
of work its threads spin for a while before they sleep. GNU's OpenMP, which PyTorch's wheels for Linux bring,
spins 300,000 times by default, some milliseconds: where other processes want the same processors, a thread
that spins takes the processor from the very thread it waits for, and training nearly stops. Not to spin at
all (`OMP_WAIT_POLICY=passive`) costs a quarter of the speed of an idle machine. Between the two lies a short
spin, about as long as it takes to wake a thread that sleeps. `benchmarks/shared.py` measures the policies.

The library reads its settings once, when PyTorch is imported. So the command line calls `configure_threads`
before, and who uses regard from Python does so, too, if at all:

    import regard
    regard.configure_threads()  # before the first import of torch

What the user has set in the environment stays as it is. This module imports nothing but the standard library.
"""

import math
import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path, PurePosixPath

__all__ = ["SPINS", "available_processors", "configure_threads", "cpu_quota"]

SPINS = 1000
"""How often a waiting thread of GNU's OpenMP looks again before it sleeps."""

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""What the user may set to choose how threads wait."""

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def configure_threads(environment: MutableMapping[str, str] | None = None) -> None:
    """Choose how many OpenMP threads there are and how they wait, where the user has not chosen.

    It has no effect on a process that has imported torch.

    Args:
        environment: The environment variables to set; by default this process's.
    """
    chosen = os.environ if environment is None else environment
    if not any(chosen.get(name) for name in WAITING):
        chosen["GOMP_SPINCOUNT"] = str(SPINS)
    available = available_processors()
    if not chosen.get("OMP_NUM_THREADS") and available < _scheduled_processors():
        chosen["OMP_NUM_THREADS"] = str(available)


def available_processors() -> int:
    """The number of processors that this process may use: by its affinity and by its cgroup's CPU quota.

    A part of a processor counts as one.
    """
    processors, quota = _scheduled_processors(), cpu_quota()
    return processors if quota is None else max(1, min(processors, math.ceil(quota)))


def _scheduled_processors() -> int:
    """The processors that the scheduler may put this process on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(own: Path | None = None, root: Path | None = None) -> float | None:
    """The processor time that the cgroups of this process may use, in processors; none: no limit.

    Args:
        own: The file that names the cgroups of the process; by default `/proc/self/cgroup`.
        root: Where cgroups are mounted; by default `/sys/fs/cgroup`.
    """
    root = CGROUPS if root is None else root
    try:
        lines = (OWN_CGROUP if own is None else own).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    quotas: list[float] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            quotas += _quotas((root, root / "unified"), path, _unified_quota)
        elif "cpu" in controllers.split(","):
            quotas += _quotas((root / "cpu", root / controllers), path, _legacy_quota)
    return min(quotas, default=None)


def _quotas(mounts: tuple[Path, ...], path: str, read: Callable[[Path], float | None]) -> Iterator[float]:
    """The limits of a cgroup and of those that it lies in; a container's own may be mounted at the root."""
    inside = PurePosixPath(path.lstrip("/"))
    for mount in mounts:
        for part in (inside, *inside.parents):
            quota = read(mount / part)
            if quota is not None:
                yield quota


def _unified_quota(folder: Path) -> float | None:
    """The limit in `cpu.max` of cgroup v2: microseconds of processor time, and in how many, or `max`."""
    return _ratio(_words(folder / "cpu.max"))


def _legacy_quota(folder: Path) -> float | None:
    """The limit of cgroup v1; a quota of -1 is none."""
    return _ratio(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []


def _ratio(words: list[str]) -> float | None:
    """Quota by period, where both are numbers above 0."""
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None
    return int(words[0]) / int(words[1])
