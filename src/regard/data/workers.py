"""Tokenising in several processes, results in order.

The processes are fresh interpreters spoken to through pipes. `multiprocessing` would fork a process whose
torch has threads (unsafe), or import the caller's script again (which a script without a main guard, and
text piped into Python, do not survive).
"""

import pickle
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

from regard.errors import RegardError

__all__ = ["ordered_map", "serve"]

_START = "import sys; sys.path[:] = {path!r}; from regard.data.workers import serve; serve()"


def ordered_map(function: Callable[[Any], Any], items: Iterable[Any], processes: int) -> Iterator[Any]:
    """Apply a function to items, in several processes, yielding results in the order of the items.

    Args:
        function: What to apply; it, the items and the results can be pickled.
        items: Read as they are needed, a few ahead.
        processes: How many; 1: in this process.

    Raises:
        RegardError: if a process died.
    """
    if processes <= 1:
        yield from map(function, items)
        return
    workers = [_Worker(function) for _ in range(processes)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work(item: Any) -> Any:
        worker = idle.get()
        try:
            return worker(item)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(processes)
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


class _Worker:
    """A fresh interpreter that applies one function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        command = [sys.executable, "-P", "-c", _START.format(path=sys.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._send(function)

    def __call__(self, item: Any) -> Any:
        self._send(item)
        try:
            assert self._process.stdout is not None
            return pickle.load(self._process.stdout)
        except EOFError:
            self._fail()

    def _send(self, item: Any) -> None:
        try:
            assert self._process.stdin is not None
            pickle.dump(item, self._process.stdin, protocol=5)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> None:
        status = self._process.wait()
        raise RegardError(f"a tokenizing process ended with status {status}; is there enough memory?")

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """The life of a process: read a function, then items; write results, until the input ends."""
    # Ctrl-C reaches every process of the terminal; the first one ends these.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers: IO[bytes] = sys.stdout.buffer
    # Whatever a library prints must not stand among the answers.
    sys.stdout = sys.stderr
    function = pickle.load(sys.stdin.buffer)
    while True:
        try:
            item = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(function(item), answers, protocol=5)
        answers.flush()
