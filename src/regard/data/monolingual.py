"""Text of one language as training data of a language model: ids of its tokenizer, some of them hidden.

Masked: of each line 15 % of the tokens are to be found again, at least one; 80 % of these are hidden by the
mask symbol, 10 % by a random token, 10 % stay as they are (Devlin et al. 2019, Section 3.1). What is hidden
is drawn anew in each epoch, and is a function of seed, epoch and line. Causal: each token, and the end, after
those before it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig, batches, collate
from regard.data.corpus import read_lines
from regard.errors import DataError
from regard.types import Bool, Tensor

__all__ = ["CausalLines", "Lines", "MaskedBatch", "MaskedLines", "hidden_count", "hide", "read_monolingual"]

SHARE, MASKED, RANDOM = 0.15, 0.8, 0.1
CHUNK = 1000


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Sentences with hidden tokens as sources, and these tokens, in their order, as targets.

    Attributes:
        hidden: [B, S], True where a token is to be found again; as many as the target has tokens.
    """

    hidden: Bool[Tensor, "B S"] | None = None

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """The same on another device."""
        assert self.target is not None and self.hidden is not None
        parts = (self.source.to(device), self.target.to(device), self.rows.to(device))
        return MaskedBatch(*parts, hidden=self.hidden.to(device))


@dataclass(frozen=True)
class Lines:
    """Lines as ids, without the symbols around them.

    Attributes:
        ids: Flat.
        ends: Where each line ends.
    """

    ids: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.ends)

    def line(self, row: int) -> np.ndarray:
        """The ids of a line."""
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]

    @property
    def digest(self) -> str:
        """SHA-256 of the ids."""
        return hashlib.sha256(self.ids.tobytes() + self.ends.tobytes()).hexdigest()


def read_monolingual(paths: Sequence[str], tokenizer: Any, longest: int) -> Lines:
    """Tokenise files, empty lines left out, long ones cut.

    Args:
        paths: The files, plain or gzip.
        tokenizer: A tokenizer of Hugging Face's library.
        longest: The most tokens of a line.

    Raises:
        DataError: if a file is missing or broken, or there is no line.
    """
    flat: list[np.ndarray] = []
    ends: list[int] = []
    total = 0
    lines = (line for line in chain.from_iterable(map(read_lines, paths)) if line.strip())
    for chunk in _chunks(lines):
        for ids in tokenizer(chunk, add_special_tokens=False, verbose=False)["input_ids"]:
            if ids:
                flat.append(np.array(ids[:longest], dtype=np.int32))
                ends.append(total := total + len(flat[-1]))
    if not ends:
        raise DataError(f"{', '.join(paths)}: holds no text")
    return Lines(np.concatenate(flat), np.array(ends, dtype=np.int64))


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    left = iter(lines)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


def hidden_count(length: int) -> int:
    """How many tokens of a line of some length are to be found again."""
    return max(1, round(SHARE * length))


def hide(
    ids: np.ndarray, random: np.random.Generator, mask: int, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hide tokens of a line.

    Args:
        ids: The line.
        random: What is drawn from.
        mask: The mask symbol.
        others: The ids that a random token is one of.

    Returns:
        The line as it is read, and the places, in order, whose tokens are to be found again.
    """
    places = np.sort(random.permutation(len(ids))[: hidden_count(len(ids))])
    way = random.random(len(places))
    read = ids.copy()
    drawn = random.choice(others, len(places))
    read[places] = np.where(way < MASKED, mask, np.where(way < MASKED + RANDOM, drawn, ids[places]))
    return read, places


class CausalLines:
    """Examples of a causal language model.

    Args:
        lines: The text.
        start: The id that stands before every line.
        end: The id that stands after it.
    """

    def __init__(self, lines: Lines, start: int, end: int) -> None:
        """Keep the text."""
        self.text, self.start, self.end = lines, start, end
        self._lengths = np.diff(lines.ends, prepend=0) + 1

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of every line and its end, twice."""
        return self._lengths, self._lengths

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch."""
        return batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """The rows as a batch."""
        lines = [self.text.line(int(row)) for row in rows]
        sources = [np.concatenate([[self.start], line]) for line in lines]
        return collate(sources, [np.concatenate([line, [self.end]]) for line in lines], rows)


class MaskedLines:
    """Examples of a masked language model.

    Args:
        lines: The text.
        tokenizer: The library's tokenizer: its symbols around a line, its mask, its other tokens.
    """

    def __init__(self, lines: Lines, tokenizer: Any) -> None:
        """Keep the text."""
        self.text, self._drawn = lines, (0, 0)
        self.mask: int = tokenizer.mask_token_id
        self.before, self.after = _around(tokenizer)
        special = set(tokenizer.all_special_ids)
        self.others = np.array([number for number in range(len(tokenizer)) if number not in special])
        own = np.diff(lines.ends, prepend=0)
        self._lengths = own + len(self.before) + len(self.after)
        self._hidden = np.array([hidden_count(int(length)) for length in own])

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of every line, and how many of them are hidden."""
        return self._lengths, self._hidden

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch; batches made from then on hide what this epoch hides."""
        self._drawn = (seed, epoch)
        return batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> MaskedBatch:
        """The rows as a batch."""
        sources, targets = [], []
        length = int(max(self._lengths[int(row)] for row in rows))
        hidden = np.zeros((len(rows), length), dtype=bool)
        for number, row in enumerate(rows):
            line = self.text.line(int(row))
            random = np.random.default_rng([*self._drawn, int(row)])
            read, places = hide(line, random, self.mask, self.others)
            sources.append(np.concatenate([self.before, read, self.after]))
            targets.append(line[places])
            hidden[number, places + len(self.before)] = True
        made = collate(sources, targets, rows)
        assert made.target is not None
        return MaskedBatch(made.source, made.target, made.rows, hidden=torch.from_numpy(hidden))


def _around(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the tokenizer puts before and after a line."""
    bare, whole = (tokenizer("a", add_special_tokens=one)["input_ids"] for one in (False, True))
    first = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return np.array(whole[:first], dtype=np.int64), np.array(whole[first + len(bare) :], dtype=np.int64)
