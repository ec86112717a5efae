"""Which tokens and characters of a text a model's vocabulary lacks, counted while data is prepared.

An unknown token is replaced by `<unk>`. A character is unknown where no token of the vocabulary holds it, or
where it is written as bytes.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.data.tokenizers.pieces import BYTE_OF
from regard.data.vocabulary import SPECIALS, Vocabulary

__all__ = ["UnknownCounts", "report_unknown"]

_log = logging.getLogger(__name__)
_LISTED = 10


class UnknownCounts:
    """The unknown tokens and characters of one side of a split.

    Args:
        tokens: The distinct tokens of the side, by number.
        vocabulary: The side's vocabulary.
        byte_fallback: Whether tokens such as `<0xC3>` stand for bytes.
    """

    def __init__(self, tokens: Sequence[str], vocabulary: Vocabulary, byte_fallback: bool) -> None:
        """Start with no text."""
        self._tokens = tokens
        self._vocabulary = vocabulary
        self._counts = np.zeros(len(tokens), dtype=np.int64)
        bytes_of = [BYTE_OF.get(token, -1) if byte_fallback else -1 for token in tokens]
        self._bytes = np.array(bytes_of, dtype=np.int64)
        self._spelled: Counter[str] = Counter()

    def add(self, numbers: np.ndarray) -> None:
        """Count the tokens of whole sentences."""
        self._counts += np.bincount(numbers, minlength=len(self._counts))
        bytes_of = self._bytes[numbers]
        # The bytes of a character follow each other, and no byte of one can be mistaken for another's.
        spelled = bytes_of[bytes_of >= 0].astype(np.uint8).tobytes().decode(errors="replace")
        self._spelled.update(spelled)

    def describe(self) -> dict[str, Any]:
        """Return the number of tokens, of unknown tokens, and the most frequent unknown characters."""
        known = set[str]().union(*self._vocabulary.tokens[len(SPECIALS) :])
        characters = Counter(self._spelled)
        unknown = 0
        for token, count in zip(self._tokens, self._counts.tolist(), strict=True):
            if count and token not in self._vocabulary:
                unknown += count
                for character in token:
                    if character not in known:
                        characters[character] += count
        ranked = sorted(characters.items(), key=lambda pair: (-pair[1], pair[0]))
        return {"tokens": int(self._counts.sum()), "unknown": unknown, "characters": dict(ranked[:_LISTED])}


def report_unknown(splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the share of unknown tokens, and the most frequent unknown characters, of each split."""
    for name, split in splits.items():
        sides = [_sentence(side, about) for side, about in split["unknown"].items()]
        worst = max(about["unknown"] for about in split["unknown"].values())
        log = _log.warning if worst else _log.info
        log("%s: %s", name, "; ".join(sides))


def _sentence(side: str, about: Mapping[str, Any]) -> str:
    total, unknown = about["tokens"], about["unknown"]
    share = 100 * unknown / max(total, 1)
    text = f"{unknown:,} of {total:,} {side} tokens are unknown ({share:.2f} %)"
    if about["characters"]:
        listed = " ".join(f"{character} ({count:,})" for character, count in about["characters"].items())
        text += (
            f", most frequent {'unknown characters' if unknown else 'characters written as bytes'}: {listed}"
        )
    return text
