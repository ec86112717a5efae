"""The number of processors available to this process, and the wait policy of OpenMP threads.

PyTorch, MKL and the compiled kernels of `regard.kernels` share one pool of OpenMP threads. Between two
parallel regions its threads spin for a while before they sleep. GNU's OpenMP, which is part of PyTorch's
wheels for Linux, spins 300,000 times by default, which takes several milliseconds. If other processes compete
for the same processors, a spinning thread occupies the processor that the thread it waits for needs, and
training nearly stops. Without any spinning (`OMP_WAIT_POLICY=passive`), training on an idle machine loses a
quarter of its speed. A short spin, about as long as it takes to wake a sleeping thread, avoids both problems.
`benchmarks/shared.py` measures the policies.

OpenMP reads its settings once, when PyTorch is imported. The command line therefore calls
`configure_threads` before that import. Python programs that use regard can do the same:

    import regard
    regard.configure_threads()  # before the first import of torch

Environment variables that the user has set are not changed. This module imports only the standard library.
"""

import math
import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path, PurePosixPath

__all__ = ["SPIN_COUNT", "configure_threads", "cpu_quota", "num_available_cpus"]

SPIN_COUNT = 1000
"""Number of times that a waiting thread of GNU's OpenMP spins before it sleeps."""

WAIT_POLICY_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables with which the user can choose the wait policy."""

CGROUP_ROOT = Path("/sys/fs/cgroup")
PROC_CGROUP = Path("/proc/self/cgroup")


def configure_threads(env: MutableMapping[str, str] | None = None) -> None:
    """Set the number of OpenMP threads and their wait policy, unless the user has set them.

    This has no effect after torch has been imported.

    Args:
        env: The environment variables to set. Default: those of this process.
    """
    variables = os.environ if env is None else env
    if not any(variables.get(name) for name in WAIT_POLICY_VARIABLES):
        variables["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
    available = num_available_cpus()
    # OpenMP respects the affinity of the process, but not the CPU quota of its cgroup.
    if not variables.get("OMP_NUM_THREADS") and available < _num_schedulable_cpus():
        variables["OMP_NUM_THREADS"] = str(available)


def num_available_cpus() -> int:
    """Return the number of processors this process may use, given its affinity and its cgroup's CPU quota.

    A fractional quota is rounded up.
    """
    processors, quota = _num_schedulable_cpus(), cpu_quota()
    return processors if quota is None else max(1, min(processors, math.ceil(quota)))


def _num_schedulable_cpus() -> int:
    """Return the number of processors that the scheduler may run this process on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(cgroup_file: Path | None = None, root: Path | None = None) -> float | None:
    """Return the CPU quota of the cgroups of this process as a number of processors, or None without a limit.

    Args:
        cgroup_file: The file that lists the cgroups of the process. Default: `/proc/self/cgroup`.
        root: The mount point of the cgroup file system. Default: `/sys/fs/cgroup`.
    """
    root = CGROUP_ROOT if root is None else root
    try:
        lines = (PROC_CGROUP if cgroup_file is None else cgroup_file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    quotas: list[float] = []
    for line in lines:
        # A line has the form NUMBER:CONTROLLERS:PATH. The path may contain colons.
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # cgroup v2 has a single hierarchy, whose line lists no controllers
            quotas += _iter_quotas((root, root / "unified"), path, _unified_quota)
        elif "cpu" in controllers.split(","):
            # The mount point has the name of its controllers, such as `cpu,cpuacct`, or is linked as `cpu`.
            quotas += _iter_quotas((root / "cpu", root / controllers), path, _legacy_quota)
    # The quota of an ancestor limits its descendants as well, so the lowest one applies.
    return min(quotas, default=None)


def _iter_quotas(
    mounts: tuple[Path, ...], path: str, read: Callable[[Path], float | None]
) -> Iterator[float]:
    """Yield the quotas of a cgroup and of its ancestors.

    Inside a container the path may refer to the host's hierarchy while the container's own cgroup is mounted
    at the root. The ancestors of the path include the root, so its quota is found as well.
    """
    inside = PurePosixPath(path.lstrip("/"))
    for mount in mounts:
        for part in (inside, *inside.parents):
            quota = read(mount / part)
            if quota is not None:
                yield quota


def _unified_quota(directory: Path) -> float | None:
    """Return the quota in `cpu.max` of cgroup v2: processor time and period in microseconds, or `max`."""
    return _ratio(_read_fields(directory / "cpu.max"))


def _legacy_quota(directory: Path) -> float | None:
    """Return the quota of cgroup v1, where -1 means no limit."""
    return _ratio(
        _read_fields(directory / "cpu.cfs_quota_us") + _read_fields(directory / "cpu.cfs_period_us")
    )


def _read_fields(path: Path) -> list[str]:
    """Return the fields of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []


def _ratio(fields: list[str]) -> float | None:
    """Return quota / period if both are positive integers, else None."""
    # `max` and -1, which mean no limit, do not consist of digits.
    if len(fields) != 2 or not all(field.isdecimal() and int(field) for field in fields):
        return None
    return int(fields[0]) / int(fields[1])
