"""Translating with several processes: the first reads and writes, all translate.

The first process reads a block of lines, hands each process its share (striped by length, so that the shares
take equally long), gathers the results and yields them in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch.distributed as dist

from regard.decoding.blocks import blocks
from regard.decoding.config import SearchConfig
from regard.decoding.translate import Line, LineResult, warn_refused

__all__ = ["BlockTranslator", "translate_shared"]


@runtime_checkable
class BlockTranslator(Protocol):
    """A `Translator`, or what translates blocks of lines as it does."""

    @property
    def search(self) -> SearchConfig:
        """How it searches."""
        ...

    def block(self, lines: Sequence[Line]) -> list[LineResult]:
        """Translate lines held together."""
        ...


def translate_shared(translator: BlockTranslator, lines: Iterable[Line]) -> Iterator[LineResult]:
    """Translate lines with all processes of the default process group.

    Args:
        translator: The same on every process.
        lines: Read by the first process alone.

    Yields:
        The results in order on the first process, nothing on the others. Whatever ends the first process's
        loop (an error in the input, a closed output) ends the others' too.
    """
    # Lines and results live on the CPU, whatever the models run on.
    group: Any = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        yield from _lead(translator, lines, group)
    else:
        while (share := _hand_out(None, group)) is not None:
            dist.gather_object(translator.block(share), None, dst=0, group=group)


def _lead(translator: BlockTranslator, lines: Iterable[Line], group: Any) -> Iterator[LineResult]:
    count = dist.get_world_size()
    waiting = True  # whether the others wait for a share: a failed search leaves them to torchrun
    try:
        for block in blocks(lines, translator.search.batch.block * count):
            by_length = sorted(block, key=lambda line: len(line.text))
            own = _hand_out([by_length[rank::count] for rank in range(count)], group)
            assert own is not None
            waiting = False
            gathered: list[Any] = [None] * count
            dist.gather_object(translator.block(own), gathered, dst=0, group=group)
            waiting = True
            for result in sorted((r for part in gathered for r in part), key=lambda r: r.line.number):
                warn_refused(result)
                yield result
    finally:
        if waiting:
            _hand_out([None] * count, group)


def _hand_out(shares: Sequence[list[Line] | None] | None, group: Any) -> list[Line] | None:
    """Give each process its share; none says that there is no more to do."""
    own: list[list[Line] | None] = [None]
    dist.scatter_object_list(own, None if shares is None else list(shares), src=0, group=group)
    return own[0]
