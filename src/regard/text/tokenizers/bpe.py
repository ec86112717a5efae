"""Byte pair encoding (Sennrich et al., 2016), implemented with their package subword-nmt.

It is applied to Moses tokens, or to the words of tokenized text, and by default learned on source and target
together. A token that does not end its word is marked with `@@`: `low@@ est`.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

from regard.config import configclass, option
from regard.text.tokenizers.base import joint_option, register_tokenizer
from regard.text.tokenizers.moses import WordSplitter, check_language, language_option, tokenized_option

__all__ = ["BytePairConfig", "BytePairTokenizer", "learn_merges"]

CONTINUATION_MARK = "@@"
_NO_MERGES = b"#version: 0.2\n"
MAX_WORD_LENGTH = 128
"""Maximum length of a word in characters. Longer words are split first, since segmentation takes quadratic
time."""
MAX_CACHE_SIZE = 200_000
"""Maximum number of cached words, which limits the memory of a server."""


@configclass
class BytePairConfig:
    """Byte pair encoding of words."""

    kind: Literal["bpe"] = option(
        default="bpe", help="Byte pair encoding of Moses tokens (Sennrich et al., 2016)."
    )
    language: str = language_option()
    num_merges: int = option(
        default=32_000, help="Maximum number of merge operations to learn.", ge=0, le=1_000_000
    )
    joint: bool = joint_option()
    tokenized: bool = tokenized_option()

    def __post_init__(self) -> None:
        """Check that Moses supports the language, unless the text is tokenized."""
        if not self.tokenized:
            check_language(self.language)


def learn_merges(counts: Mapping[str, int], num_merges: int) -> bytes:
    """Learn merge operations from word frequencies.

    Args:
        counts: The frequency of each word.
        num_merges: Maximum number of merges. Learning stops earlier when all pairs have a frequency of 1.

    Returns:
        The content of a codes file of subword-nmt.
    """
    codes = io.StringIO()
    # The package fails without any pair of characters.
    if not any(len(word) > 1 for word in counts):
        return _NO_MERGES
    from subword_nmt.learn_bpe import learn_bpe

    # Sorted, so that ties between merges do not depend on the order of the text.
    lines = [f"{word} {count}" for word, count in sorted(counts.items())]
    # The package writes a progress bar to stderr.
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(lines, codes, num_merges, is_dict=True)
    return codes.getvalue().encode()


@register_tokenizer("bpe", BytePairConfig)
class BytePairTokenizer(WordSplitter):
    """A tokenizer that applies byte pair encoding to Moses tokens or to white space separated words."""

    libraries = ("sacremoses", "subword-nmt")
    extension = "bpe"

    def __init__(self, config: BytePairConfig, learned: bytes = _NO_MERGES) -> None:
        """Initialize from the content of a codes file, as returned by `learn_merges`."""
        from subword_nmt.apply_bpe import BPE

        super().__init__(config, learned)
        header, _, merges = learned.decode().partition("\n")
        lines = merges.removesuffix("\n").split("\n") if merges else []
        if header != "#version: 0.2" or any(len(line.split(" ")) != 2 for line in lines):
            raise ValueError("not a list of merges: expected `#version: 0.2`, then two symbols per line")
        # The package would interpret an empty list of merges as one invalid merge.
        self._bpe = BPE(io.StringIO(learned.decode()), separator=CONTINUATION_MARK) if lines else None

    def learn(self, counts: Mapping[str, int]) -> "BytePairTokenizer":
        """Learn the merges."""
        return BytePairTokenizer(self.config, learn_merges(counts, self.config.num_merges))

    def segment(self, unit: str) -> Sequence[str]:
        """Return the subword tokens of a word; all except the last are marked with `@@`."""
        if self._bpe is None:
            # Without merges each character is a token.
            return [*(f"{character}{CONTINUATION_MARK}" for character in unit[:-1]), unit[-1]]
        if len(self._bpe.cache) > MAX_CACHE_SIZE:
            self._bpe.cache.clear()
        blocks = [unit[start : start + MAX_WORD_LENGTH] for start in range(0, len(unit), MAX_WORD_LENGTH)]
        tokens: list[str] = []
        for block in blocks:
            tokens += self._bpe.segment_tokens([block])
            tokens[-1] += CONTINUATION_MARK  # the mark of the last block is removed below
        tokens[-1] = tokens[-1].removesuffix(CONTINUATION_MARK)
        # The last character of `a@@` is a token, since the token `a@@` would continue in the next word.
        if tokens[-1].endswith(CONTINUATION_MARK):
            tokens[-1:] = [tokens[-1][:-1] + CONTINUATION_MARK, tokens[-1][-1]]
        return tokens

    def join(self, tokens: Sequence[str]) -> str:
        """Join subword tokens to words, separated by spaces."""
        # The space at the end lets the last mark match, too.
        return (" ".join(tokens) + " ").replace(f"{CONTINUATION_MARK} ", "")

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a word ends at every token without the mark."""
        ends = (not token.endswith(CONTINUATION_MARK) for token in tokens)
        # The initial 0 shifts the sums by one, so that an end starts a new word at the next token.
        return list(accumulate(ends, initial=0))[: len(tokens)]
