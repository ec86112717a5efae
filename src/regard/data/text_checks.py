"""Checks of prepared text: unknown tokens and characters, and swapped source and target sides.

An unknown token is replaced by `<unk>`. A character counts as unknown if no token of the vocabulary contains
it, or if it is encoded as bytes.

Text in one language fits the training text of the other language badly: most of its words are unknown there,
or are split into many rare subword tokens. The fit is measured by the probability of the text under a
smoothed unigram model of each side; unknown tokens get the lowest probability. This needs no list of
languages, and it works with words, subword tokens and shared vocabularies.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.text.tokenizers.sentencepiece import BYTE_VALUES
from regard.text.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary

__all__ = [
    "UnknownTokenCounter",
    "is_swapped",
    "log_unknown_tokens",
    "warn_if_swapped",
]
if TYPE_CHECKING:
    # `dataset` imports this module.
    from regard.data.dataset import PreparedData
    from regard.data.text import TextSide

_log = logging.getLogger(__name__)
_MAX_LISTED = 10
MAX_LINES = 1000
"""Maximum number of lines that are examined, evenly spaced."""
MAX_COST_RATIO = 0.9
"""Both sides must have a cost in nats under the other side of less than this fraction of their own."""
MIN_COST_DIFFERENCE = 5.0
"""Minimum difference of the costs in nats, since one or two words are not sufficient evidence."""
SMOOTHING = 0.1
"""Constant of additive smoothing of the unigram counts."""


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


def warn_if_swapped(prepared: "PreparedData") -> None:
    """Log a warning for validation and test sets whose source and target seem to be swapped."""
    for name in prepared:
        if name != "train" and is_swapped(prepared, name):
            names = " and ".join(corpus["name"] for corpus in prepared.split(name).corpora)
            _log.warning(
                "%s: source and target seem to be swapped: the source text fits the target side of the "
                "training text better, and the target text the source side; check data.%s",
                names,
                name,
            )


def is_swapped(prepared: "PreparedData", name: str) -> bool:
    """Return whether both sides of a split fit the other side of the training text clearly better.

    Args:
        prepared: The preprocessed data.
        name: Name of the split; not `train`, whose text is not stored.
    """
    lines = prepared.split(name).raw_lines()
    counts = prepared.split("train").token_counts()
    sides = prepared.text.source, prepared.text.target
    for own, other in ((0, 1), (1, 0)):
        chosen = lines[own][:: max(1, len(lines[own]) // MAX_LINES)]
        if any(sides[other].format_error(line) is not None for line in chosen):
            return False  # the text does not have the format of the other tokenizer, such as inflection
        costs = [_negative_log_likelihood(chosen, sides[side], counts[side]) for side in (own, other)]
        # Both criteria must hold on both sides: a relative and an absolute difference.
        if costs[1] > min(MAX_COST_RATIO * costs[0], costs[0] - MIN_COST_DIFFERENCE):
            return False
    return True


def _negative_log_likelihood(lines: list[str], side: "TextSide", counts: np.ndarray) -> float:
    """Return the negative log-probability of lines under the smoothed unigram model of a side."""
    smoothed = counts + SMOOTHING
    # The training text may contain many unknown tokens, which must not make them probable.
    smoothed[UNK] = SMOOTHING
    ids = np.array(
        [i for line in lines for i in side.vocabulary.to_ids(side.tokenizer.encode(line))], dtype=int
    )
    return float((np.log(smoothed.sum()) - np.log(smoothed[ids])).sum())
