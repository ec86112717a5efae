"""A parallel, ordered map over worker processes, used for tokenization.

The workers are new Python interpreters that communicate through pipes. `multiprocessing` is not used: with
`fork` it would copy a process in which PyTorch has threads, which is unsafe. With `spawn` it would import the
main script again, which fails for scripts without a main guard and for programs read from standard input.
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

from regard.config.plugins import load_plugins, loaded
from regard.errors import RegardError

_START = "import sys; sys.path[:] = {path!r}; from regard.text.workers import run_worker; run_worker()"


def ordered_map(function: Callable[[Any], Any], items: Iterable[Any], num_processes: int) -> Iterator[Any]:
    """Apply a function to items in several processes and yield the results in the order of the items.

    Args:
        function: The function. The function, the items and the results must be picklable.
        items: The items, which are consumed lazily, a few ahead of the results.
        num_processes: Number of processes. 1 runs the function in this process.

    Raises:
        RegardError: if a worker process died.
    """
    if num_processes <= 1:
        yield from map(function, items)
        return
    workers = [_Worker(function) for _ in range(num_processes)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work(item: Any) -> Any:
        worker = idle.get()
        try:
            return worker(item)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(num_processes)
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            # At most two items per worker are in progress, which limits the memory.
            if len(waiting) > 2 * num_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


class _Worker:
    """A new interpreter that applies one function to items."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        command = [sys.executable, "-P", "-c", _START.format(path=sys.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A class of a plugin file can be unpickled only after the file was imported.
        self._send(tuple(loaded().values()))
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
        raise RegardError(
            f"a tokenizer process ended with status {status}; if memory is short, use fewer processes"
        )

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        self._process.communicate()


def run_worker() -> None:
    """Run the main loop of a worker: read plugins, a function, then items; write results until the end."""
    # Ctrl-C is sent to all processes of the terminal. The main process handles it and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results: IO[bytes] = sys.stdout.buffer
    # Output that libraries print must not be mixed with the pickled results.
    sys.stdout = sys.stderr
    load_plugins(pickle.load(sys.stdin.buffer))
    function = pickle.load(sys.stdin.buffer)
    while True:
        try:
            item = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(function(item), results, protocol=5)
        results.flush()
