"""Processes of this interpreter that this process starts, and stops with itself.

A module that runs in one calls `exit_with_parent` with its last argument, the id that `start_module` passes.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

__all__ = ["exit_with_parent", "interrupt_on_signals", "start_module", "stop_processes"]

PR_SET_PDEATHSIG = 1
"""The constant of `linux/prctl.h` for a signal at the death of the parent."""


def start_module(
    module: str, arguments: Sequence[str], log: Path, num_threads: int = 0
) -> "subprocess.Popen[bytes]":
    """Start a module in its own session, so that Ctrl-C reaches it only through this process, and once.

    Args:
        module: The name of the module, which is run as `__main__`.
        arguments: Its arguments. The id of this process is added to them.
        log: The file to which its output is appended.
        num_threads: Number of threads of OpenMP and Numba. 0 leaves it to the environment.
    """
    environment = dict(os.environ)
    # OpenMP and Numba read their number of threads at the start of the process only.
    if num_threads:
        environment |= {"OMP_NUM_THREADS": str(num_threads), "NUMBA_NUM_THREADS": str(num_threads)}
    with open(log, "ab") as file:
        return subprocess.Popen(
            # `-P` keeps the current directory out of the import path.
            [sys.executable, "-P", "-m", module, *arguments, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def stop_processes(processes: "Iterable[subprocess.Popen[bytes]]") -> None:
    """Send SIGTERM to processes, which then save their state, and wait for them."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait()


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Return a context in which SIGTERM and SIGHUP act like Ctrl-C; under `nohup` SIGHUP stays ignored.

    It has no effect in a thread other than the main one, which cannot handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; its work can be resumed from the last checkpoint."""
    # prctl exists on Linux only; elsewhere a thread polls the id of the parent.
    control = getattr(ctypes.CDLL(None), "prctl", None)
    if control is None or control(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    elif os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # the parent ended before prctl was called


def _watch(parent: int) -> None:
    """Check every second whether the parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
