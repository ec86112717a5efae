"""Unknown tokens and characters of prepared text.

An unknown token is replaced by `<unk>`. A character counts as unknown if no token of the vocabulary contains
it, or if it is encoded as bytes.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.text.tokenizers.sentencepiece import BYTE_VALUES
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary

__all__ = [
    "UnknownTokenCounter",
    "log_unknown_tokens",
]
_log = logging.getLogger(__name__)
_MAX_LISTED = 10


class UnknownTokenCounter:
    """Counts the unknown tokens and characters in one language of a split.

    Args:
        tokens: The distinct tokens; the numbers passed to `add` are indices into this sequence.
        vocabulary: The vocabulary of the language.
        byte_fallback: Whether tokens such as `<0xC3>` represent bytes.
    """

    def __init__(self, tokens: Sequence[str], vocabulary: Vocabulary, byte_fallback: bool) -> None:
        """Initialize all counts with zero."""
        self._tokens = tokens
        self._vocabulary = vocabulary
        self._counts = np.zeros(len(tokens), dtype=np.int64)
        bytes_of = [BYTE_VALUES.get(token, -1) if byte_fallback else -1 for token in tokens]
        self._bytes = np.array(bytes_of, dtype=np.int64)
        self._spelled: Counter[str] = Counter()

    def add(self, numbers: np.ndarray) -> None:
        """Add the tokens of complete sentences to the counts."""
        # The counts are kept by token number: strings are only compared once, in `summary`.
        self._counts += np.bincount(numbers, minlength=len(self._counts))
        bytes_of = self._bytes[numbers]
        # The bytes of a character are adjacent, and UTF-8 is self-synchronizing: decoding the concatenated
        # byte tokens of many sentences gives the characters that were encoded as bytes.
        spelled = bytes_of[bytes_of >= 0].astype(np.uint8).tobytes().decode(errors="replace")
        self._spelled.update(spelled)

    def summary(self) -> dict[str, Any]:
        """Return the number of tokens, the number of unknown tokens, and the top unknown characters."""
        # Characters of any known token can be spelled, even if this token is unknown.
        known = set[str]().union(*self._vocabulary.tokens[len(SPECIAL_TOKENS) :])
        characters = Counter(self._spelled)
        unknown = 0
        for token, count in zip(self._tokens, self._counts.tolist(), strict=True):
            if count and token not in self._vocabulary:
                unknown += count
                for character in token:
                    if character not in known:
                        characters[character] += count
        ranked = sorted(characters.items(), key=lambda pair: (-pair[1], pair[0]))
        return {
            "tokens": int(self._counts.sum()),
            "unknown": unknown,
            "characters": dict(ranked[:_MAX_LISTED]),
        }


def log_unknown_tokens(splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the percentage of unknown tokens and the top unknown characters of each split."""
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
            f", most frequent {'unknown characters' if unknown else 'characters encoded as bytes'}: {listed}"
        )
    return text
