"""Translation in parallel: two batches of a process at once, and several processes.

A decoding step consists of a few large matrix multiplications and many small operations, during which all but
one thread are idle. Therefore two batches are searched concurrently, each with half of the threads, which
gives about a sixth more sentences per second (`benchmarks/RESULTS.md`). More than two batches would wait for
Python's global interpreter lock. The lock's switch interval is a setting of the whole process and is left as
the program has set it.

With several processes, rank 0 reads a block of lines, scatters it (striped by length, so that all shares take
about the same time), gathers the results and yields them in order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from regard.generation.base import BaseTranslator
from regard.generation.beam import eval_mode
from regard.generation.blocks import read_blocks
from regard.generation.lines import Line, LineResult, log_warnings

__all__ = ["map_batches", "translate_distributed"]

_T = TypeVar("_T")
_R = TypeVar("_R")

_lock = Lock()


def map_batches(model: nn.Module, batches: Sequence[_T], function: Callable[[_T], _R]) -> list[_R]:
    """Apply a function to each batch and return the results in order.

    Args:
        model: The model that the function uses.
        batches: The batches.
        function: Called in other threads, with the autocast settings of the calling thread.
    """
    threads = torch.get_num_threads()
    first = next(model.parameters(), None)
    device = "cpu" if first is None else first.device.type
    if device != "cpu" or threads < 2 or len(batches) < 2:
        return [function(batch) for batch in batches]
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

    def search(batch: _T) -> _R:
        with torch.autocast(device, dtype, enabled=dtype is not None):
            return function(batch)

    # Set evaluation mode once for both threads: each search restores the mode that it found.
    with eval_mode(model), ThreadPoolExecutor(2, "search") as pool:
        _split_threads(pool, threads)
        return list(pool.map(search, batches))


def _split_threads(pool: ThreadPoolExecutor, threads: int) -> None:
    """Give each worker of a pool half of the threads; both get the same number, as results depend on it."""
    barrier = Barrier(3)

    def set_threads() -> None:
        # A thread's first call adopts the last number set in any thread, so it must precede the setter.
        torch.get_num_threads()
        torch.set_num_threads(threads // 2)
        barrier.wait()

    with _lock:
        for _ in range(2):
            pool.submit(set_threads)
        barrier.wait()
        torch.set_num_threads(threads)  # restores the default for new threads


def translate_distributed(translator: BaseTranslator, lines: Iterable[Line]) -> Iterator[LineResult]:
    """Translate lines with all processes of the default process group.

    Args:
        translator: The translator, the same on every process.
        lines: Lines to translate. Only rank 0 reads them.

    Yields:
        The results in order on rank 0, nothing on other ranks. If the loop on rank 0 ends early (an error in
        the input, a closed output), the other processes end too.
    """
    # Lines and results are Python objects, so gloo is used even if the models run on GPUs.
    group: Any = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        yield from _run_rank_zero(translator, lines, group)
    else:
        while (share := _scatter(None, group)) is not None:
            dist.gather_object(translator.translate_block(share), None, dst=0, group=group)


def _run_rank_zero(translator: BaseTranslator, lines: Iterable[Line], group: Any) -> Iterator[LineResult]:
    count = dist.get_world_size()
    waiting = True  # whether other ranks wait for a share; after a failed search, torchrun ends them
    try:
        for block in read_blocks(lines, translator.search.buffer_lines * count):
            # Striping over lines sorted by length gives all processes a similar amount of work.
            by_length = sorted(block, key=lambda line: len(line.text))
            share = _scatter([by_length[rank::count] for rank in range(count)], group)
            assert share is not None
            waiting = False
            gathered: list[Any] = [None] * count
            dist.gather_object(translator.translate_block(share), gathered, dst=0, group=group)
            waiting = True
            for result in sorted((r for part in gathered for r in part), key=lambda r: r.line.number):
                log_warnings(result)
                yield result
    finally:
        if waiting:
            _scatter([None] * count, group)


def _scatter(shares: Sequence[list[Line] | None] | None, group: Any) -> list[Line] | None:
    """Scatter the shares from rank 0. A share of None ends the loop of the receiving process."""
    received: list[list[Line] | None] = [None]
    dist.scatter_object_list(received, None if shares is None else list(shares), src=0, group=group)
    return received[0]
