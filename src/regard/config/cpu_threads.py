"""The number of processors available to this process, and the wait policy of OpenMP threads.

PyTorch, MKL and the compiled kernels of `regard.kernels` share one pool of OpenMP threads. A waiting thread
of GNU's OpenMP spins 300,000 times, which takes several milliseconds, before it sleeps. If other processes
compete for the processors, training then nearly stops. Without any spinning, it loses a quarter of its speed
on an idle machine. A short spin, about as long as it takes to wake a thread, avoids both problems.
`benchmarks/shared.py` measures the policies, and `docs/howto/train.md` describes the settings.

OpenMP reads its settings once, when PyTorch is imported. The command line therefore calls
`configure_threads` before that import. Environment variables that the user has set are not changed. This
module imports only the standard library.
"""

import math
import os
from pathlib import Path

SPIN_COUNT = 1000
"""Number of times that a waiting thread of GNU's OpenMP spins before it sleeps."""

WAIT_POLICY_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables with which the user can choose the wait policy."""

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The CPU quota of the container of this process (cgroups, version 2)."""


def configure_threads() -> None:
    """Set the number of OpenMP threads and their wait policy, unless the user has set them.

    They are environment variables of this process. This has no effect after torch has been imported.
    """
    if not any(os.environ.get(name) for name in WAIT_POLICY_VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
    available = num_available_cpus()
    # OpenMP respects the affinity of the process, but not the CPU quota of its container.
    if not os.environ.get("OMP_NUM_THREADS") and available < _num_schedulable_cpus():
        os.environ["OMP_NUM_THREADS"] = str(available)


def num_available_cpus() -> int:
    """Return the number of processors this process may use, given its affinity and its container's CPU quota.

    A fractional quota is rounded up.
    """
    processors = _num_schedulable_cpus()
    try:
        # Processor time and period in microseconds.
        quota, period = CPU_QUOTA.read_text(encoding="utf-8").split()
        return max(1, min(processors, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no container, or the quota "max"
        return processors


def _num_schedulable_cpus() -> int:
    """Return the number of processors that the scheduler may run this process on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
