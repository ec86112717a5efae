"""Byte pair encoding (Sennrich et al., 2016), implemented with their package subword-nmt.

It is applied to Moses tokens, or to the words of tokenized text, and by default learned on source and target
together. A token that does not end its word is marked with `@@`: `low@@ est`.
"""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, Self

from regard.config import configclass, option
from regard.errors import DataError
from regard.text.reading import read_bytes
from regard.text.text_format import TextFormat, TextFormatDetector
from regard.text.tokenizers.base import Tokenizer, register_tokenizer
from regard.text.tokenizers.moses import MosesConfig, MosesTokenizer, check_language
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.whitespace import split_whitespace

__all__ = ["BytePairConfig", "BytePairTokenizer", "learn_merges"]

CONTINUATION_MARK = "@@"
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
    language: str = option(
        default="en",
        help="Two-letter code of the language for the Moses tokenizer, which must have spaces between words.",
        pattern="^[a-z]{2,3}$",
    )
    num_merges: int = option(
        default=32_000, help="Maximum number of merge operations to learn.", ge=0, le=1_000_000
    )
    joint: bool = option(
        default=True,
        help="Learn one subword model from the source and target text of all training corpora; both "
        "tokenizer tables must then be equal, except for `language`. false: one model per side.",
    )
    tokenized: bool = option(
        default=False,
        help="Whether the text is already tokenized. If true, words are split at white space, not by the "
        "Moses tokenizer, and translations are not detokenized.",
    )

    def __post_init__(self) -> None:
        """Check that Moses supports the language, unless the text is tokenized."""
        if not self.tokenized:
            check_language(self.language)


def learn_merges(counts: Mapping[str, int], num_merges: int) -> str:
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
        return "#version: 0.2\n"
    from subword_nmt.learn_bpe import learn_bpe

    # Sorted, so that ties between merges do not depend on the order of the text.
    lines = [f"{word} {count}" for word, count in sorted(counts.items())]
    # The package writes a progress bar to stderr.
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(lines, codes, num_merges, is_dict=True)
    return codes.getvalue()


@register_tokenizer("bpe", BytePairConfig)
class BytePairTokenizer(Tokenizer):
    """A tokenizer that applies byte pair encoding to Moses tokens or to white space separated words."""

    libraries = ("sacremoses", "subword-nmt")
    subword = True
    extension = "bpe"

    def __init__(self, config: BytePairConfig, codes: str) -> None:
        """Initialize from the content of a codes file, as returned by `learn_merges`."""
        from subword_nmt.apply_bpe import BPE

        self.config = config
        self.codes = codes
        self._words = (
            WordsTokenizer(WordsConfig())
            if config.tokenized
            else MosesTokenizer(MosesConfig(language=config.language))
        )
        # The package would interpret an empty list of merges as one invalid merge.
        empty = codes.count("\n") < 2
        self._bpe = None if empty else BPE(io.StringIO(codes), separator=CONTINUATION_MARK)

    def __reduce__(self) -> tuple[type["BytePairTokenizer"], tuple[BytePairConfig, str]]:
        """Pickle the configuration and the merges, without the cache."""
        return BytePairTokenizer, (self.config, self.codes)

    @classmethod
    def create(cls, config: BytePairConfig, text: Iterable[str], side: str) -> Self:
        """Create a tokenizer without merges; `learn` trains it."""
        return cls(config, learn_merges({}, 0))

    def learn(self, counts: Mapping[str, int]) -> "BytePairTokenizer":
        """Learn the merges."""
        return BytePairTokenizer(self.config, learn_merges(counts, self.config.num_merges))

    def with_config(self, config: BytePairConfig) -> "BytePairTokenizer":
        """Return a tokenizer with the same merges; see `Tokenizer.with_config`."""
        return BytePairTokenizer(config, self.codes)

    @classmethod
    def detect_format(
        cls, config: BytePairConfig, detector: TextFormatDetector, language: str | None
    ) -> TextFormat:
        """Return the format; the Moses tokenizer separates punctuation, unless the text is tokenized."""
        return detector.detect(language) if config.tokenized else TextFormat(language=config.language)

    def pretokenize(self, line: str) -> list[str]:
        """Return the words of a line."""
        return self._words.pretokenize(line)

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

    def decode(self, tokens: Sequence[str]) -> str:
        """Join subword tokens to words, and detokenize the words unless `tokenized` is set."""
        # The space at the end lets the last mark match, too.
        words = (" ".join(tokens) + " ").replace(f"{CONTINUATION_MARK} ", "")
        return self._words.decode(split_whitespace(words))

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a word ends at every token without the mark."""
        ends = (not token.endswith(CONTINUATION_MARK) for token in tokens)
        # The initial 0 shifts the sums by one, so that an end starts a new word at the next token.
        return list(accumulate(ends, initial=0))[: len(tokens)]

    @property
    def learned(self) -> bytes:
        """The merges, as a codes file of subword-nmt."""
        return self.codes.encode()

    @classmethod
    def load(cls, config: BytePairConfig, directory: Path, side: str) -> "BytePairTokenizer":
        """Load a tokenizer that was written by `save`.

        Raises:
            DataError: if the file is missing or not a list of merges.
        """
        path = directory / f"{side}.{cls.extension}"
        try:
            codes = read_bytes(path).decode()
        except UnicodeDecodeError:
            raise DataError(f"{path}: not a list of merges: not UTF-8") from None
        header, _, merges = codes.partition("\n")
        lines = merges.removesuffix("\n").split("\n") if merges else []
        if header != "#version: 0.2" or any(len(line.split(" ")) != 2 for line in lines):
            raise DataError(
                f"{path}: not a list of merges: expected `#version: 0.2`, then two symbols per line"
            )
        return cls(config, codes)
