"""The vocabulary: a bijection between tokens and ids.

The first five ids are fixed: padding, unknown token, start of sentence, end of sentence, and the sink. The
sink is an additional source position that receives the attention not spent on words (Malaviya et al., 2018).
Text cannot contain these symbols: the word `<s>` in a corpus is an ordinary word with an id of its own, or
unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.errors import DataError
from regard.text.files import write_atomic
from regard.text.reading import read_bytes

TokenIds = Sequence[int] | np.ndarray
"""The token ids of a sentence."""

PAD, UNK, BOS, EOS, SINK = 0, 1, 2, 3, 4
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<sink>")


@dataclass(frozen=True)
class Vocabulary:
    """An immutable list of tokens in the order of their ids, starting with the five special symbols.

    Attributes:
        tokens: All tokens; `tokens[i]` has the id `i`.
    """

    tokens: tuple[str, ...]
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the tokens and build the index."""
        if self.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise DataError(
                f"a vocabulary must start with {' '.join(SPECIAL_TOKENS)}; "
                f"got {self.tokens[: len(SPECIAL_TOKENS)]}"
            )
        # Special symbols are left out of the index, so that text never maps to them.
        index = {token: number for number, token in enumerate(self.tokens) if number >= len(SPECIAL_TOKENS)}
        if len(index) != len(self.tokens) - len(SPECIAL_TOKENS):
            raise DataError("the vocabulary contains a token twice")
        if "" in index or any("\n" in token for token in index):
            raise DataError("the vocabulary contains an empty token or a token with a line break")
        object.__setattr__(self, "_index", index)  # the dataclass is frozen

    @classmethod
    def build(
        cls,
        counts: Mapping[str, int],
        *,
        max_size: int | None = None,
        min_frequency: int = 1,
        required_tokens: Iterable[str] = (),
    ) -> "Vocabulary":
        """Build a vocabulary from token frequencies.

        Tokens are sorted by descending count, then by code points, so that the result is deterministic.

        Args:
            counts: The frequency of each token.
            max_size: Maximum number of tokens, special symbols and `required_tokens` not counted. None means
                no limit.
            min_frequency: Minimum frequency; rarer tokens are dropped.
            required_tokens: Tokens that are included at any frequency, directly after the special symbols.
        """
        # A dictionary removes duplicates and keeps the order.
        first = tuple(dict.fromkeys(required_tokens))
        known = set(first)
        ranked = sorted(
            (token for token, count in counts.items() if count >= min_frequency and token not in known),
            key=lambda token: (-counts[token], token),
        )
        return cls((*SPECIAL_TOKENS, *first, *ranked[:max_size]))

    def __len__(self) -> int:
        """Return the number of ids, including the special symbols."""
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        """Return whether the token is in the vocabulary; special symbols are not."""
        return token in self._index

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the id of each token; unknown tokens get `UNK`."""
        index = self._index
        return [index.get(token, UNK) for token in tokens]

    def to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id, including special symbols."""
        tokens = self.tokens
        return [tokens[number] for number in ids]

    def save(self, path: Path | str) -> None:
        """Write the tokens to a UTF-8 file with one token per line.

        Raises:
            DataError: if the file cannot be written.
        """
        write_atomic(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @classmethod
    def load(cls, path: Path | str) -> "Vocabulary":
        """Load a vocabulary that was written by `save`.

        Raises:
            DataError: if the file is missing or not a vocabulary. The message names the file.
        """
        content = read_bytes(Path(path))
        try:
            lines = content.decode().split("\n")
            # A token must not be cut: each line ends with a line feed.
            if lines.pop() != "":
                raise DataError("the last line has no line break; the file is truncated")
            return cls(tuple(lines))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a vocabulary: not UTF-8 at byte {error.start + 1}") from None
        except DataError as error:
            raise DataError(f"{path}: not a vocabulary: {error}") from None
