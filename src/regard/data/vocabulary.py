"""The vocabulary: which tokens a model knows, and their numbers.

The first five ids never change: padding, unknown token, start and end of sentence, and the sink, a source
position that takes the attention no word wants. Text is never mistaken for them: the word `<s>` in a
corpus is an ordinary word, known under an id of its own or unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.files import read_bytes, write_atomic
from regard.errors import DataError

__all__ = ["BOS", "EOS", "PAD", "SINK", "SPECIALS", "UNK", "Ids", "Vocabulary"]

Ids = Sequence[int] | np.ndarray
"""The tokens of a sentence by their numbers."""

PAD, UNK, BOS, EOS, SINK = 0, 1, 2, 3, 4
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<sink>")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, the five specials first. Immutable.

    Attributes:
        tokens: Every token; `tokens[i]` has the id `i`.
    """

    tokens: tuple[str, ...]
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the specials and number the rest."""
        if self.tokens[: len(SPECIALS)] != SPECIALS:
            raise DataError(
                f"a vocabulary starts with {' '.join(SPECIALS)}; got {self.tokens[: len(SPECIALS)]}"
            )
        index = {token: number for number, token in enumerate(self.tokens) if number >= len(SPECIALS)}
        if len(index) != len(self.tokens) - len(SPECIALS):
            raise DataError("a vocabulary holds each token once; some stand in it twice")
        if "" in index or any("\n" in token for token in index):
            raise DataError("a token of a vocabulary is not empty and has no line break")
        object.__setattr__(self, "_index", index)

    @classmethod
    def build(
        cls,
        counts: Mapping[str, int],
        *,
        size: int | None = None,
        min_count: int = 1,
        always: Iterable[str] = (),
    ) -> "Vocabulary":
        """The most frequent tokens, by count and then by code points, so that it is always the same.

        Args:
            counts: How often each token was seen.
            size: At most this many tokens, the five specials and `always` not counted; none: no limit.
            min_count: Leave out tokens seen less often.
            always: Tokens taken whatever their count, right after the specials.
        """
        first = tuple(dict.fromkeys(always))
        known = set(first)
        ranked = sorted(
            (token for token, count in counts.items() if count >= min_count and token not in known),
            key=lambda token: (-counts[token], token),
        )
        return cls((*SPECIALS, *first, *ranked[:size]))

    def __len__(self) -> int:
        """The number of ids, specials included."""
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        """Whether the token has an id of its own."""
        return token in self._index

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The id of each token, `UNK` where it has none."""
        index = self._index
        return [index.get(token, UNK) for token in tokens]

    def strings(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, specials by their names."""
        tokens = self.tokens
        return [tokens[number] for number in ids]

    def save(self, path: Path | str) -> None:
        """Write the tokens, one a line, in UTF-8.

        Raises:
            DataError: if the file cannot be written.
        """
        write_atomic(Path(path), self.content())

    def content(self) -> bytes:
        """Return what `save` writes: one token per line."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @classmethod
    def load(cls, path: Path | str) -> "Vocabulary":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or not a vocabulary; names it.
        """
        content = read_bytes(Path(path))
        try:
            lines = content.decode().split("\n")
            if lines.pop() != "":
                raise DataError("its last line is cut off")
            return cls(tuple(lines))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a vocabulary: not UTF-8 at byte {error.start + 1}") from None
        except DataError as error:
            raise DataError(f"{path}: not a vocabulary: {error}") from None
