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
from collections.abc import MutableMapping
from pathlib import Path, PurePosixPath

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


def cpu_quota() -> float | None:
    """Return the CPU quota of this process as a number of processors, or None without a limit.

    It is the lowest one of its cgroup (version 2) and its ancestors, which limit their descendants as well.
    """
    words = _read_words(PROC_CGROUP)
    inside = PurePosixPath(next((word[4:] for word in words if word.startswith("0::/")), ""))
    # Processor time and period in microseconds; "max" means no limit.
    limits = [_read_words(CGROUP_ROOT / path / "cpu.max") for path in (inside, *inside.parents)]
    quotas = [
        int(limit[0]) / int(limit[1])
        for limit in limits
        if len(limit) == 2 and all(word.isdecimal() and int(word) for word in limit)
    ]
    return min(quotas, default=None)


def _read_words(path: Path) -> list[str]:
    """Return the words of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []
