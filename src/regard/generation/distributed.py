"""Translation with several processes. Rank 0 reads and writes lines, and all processes translate.

Rank 0 reads a block of lines, scatters it (striped by length, so that all shares take about the same time),
gathers the results and yields them in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch.distributed as dist

from regard.generation.base import BaseTranslator
from regard.generation.blocks import read_blocks
from regard.generation.lines import InputLine, LineResult, log_warnings

__all__ = ["translate_distributed"]


def translate_distributed(translator: BaseTranslator, lines: Iterable[InputLine]) -> Iterator[LineResult]:
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


def _run_rank_zero(
    translator: BaseTranslator, lines: Iterable[InputLine], group: Any
) -> Iterator[LineResult]:
    count = dist.get_world_size()
    waiting = True  # whether other ranks wait for a share; after a failed search, torchrun ends them
    try:
        for block in read_blocks(lines, translator.search.buffer_lines * count):
            # Striping over lines sorted by length gives all processes a similar amount of work.
            by_length = sorted(block, key=lambda line: len(line.text))
            own = _scatter([by_length[rank::count] for rank in range(count)], group)
            assert own is not None
            waiting = False
            gathered: list[Any] = [None] * count
            dist.gather_object(translator.translate_block(own), gathered, dst=0, group=group)
            waiting = True
            for result in sorted((r for part in gathered for r in part), key=lambda r: r.line.number):
                log_warnings(result)
                yield result
    finally:
        if waiting:
            _scatter([None] * count, group)


def _scatter(shares: Sequence[list[InputLine] | None] | None, group: Any) -> list[InputLine] | None:
    """Scatter the shares from rank 0. A share of None ends the loop of the receiving process."""
    own: list[list[InputLine] | None] = [None]
    dist.scatter_object_list(own, None if shares is None else list(shares), src=0, group=group)
    return own[0]
