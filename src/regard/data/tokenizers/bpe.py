"""Byte pair encoding of words, Sennrich et al. (2016), through their package subword-nmt.

On Moses tokens, or on the words of text that is tokenised already; usually learned on source and target
together, a token that does not end its word marked with `@@`: `low@@ est`.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.spacing import split_at_spaces
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.moses import MosesConfig, MosesTokenizer, check_language
from regard.data.tokenizers.words import WordsConfig, WordsTokenizer
from regard.errors import DataError

__all__ = ["BytePairConfig", "BytePairTokenizer", "learn_merges"]

MARK = "@@"
LONGEST = 128
"""Characters segmented at once; a longer word is cut first, since merging takes quadratic time."""
CACHED = 200_000
"""Words whose segmentation is remembered; a server must not grow with what it is sent."""


@config
class BytePairConfig:
    """Byte pair encoding of words."""

    kind: Literal["bpe"] = option(default="bpe", help="Byte pair encoding of Sennrich et al. (2016).")
    language: str = option(
        default="en",
        help="The language of the Moses rules, as a two-letter code; one that separates words by spaces.",
        pattern="^[a-z]{2,3}$",
    )
    merges: int = option(default=32_000, help="How many merges to learn.", ge=0, le=1_000_000)
    joint: bool = option(default=True, help="Learn on source and target together.")
    tokenized: bool = option(
        default=False,
        help="The text is tokenised already: its words are what white space separates, not Moses tokens, and "
        "translations are written so too.",
    )

    def __post_init__(self) -> None:
        """Refuse a language that Moses cannot cut, where it is to."""
        if not self.tokenized:
            check_language(self.language)


def learn_merges(counts: Mapping[str, int], merges: int) -> str:
    """Learn merges from words and their counts.

    Args:
        counts: How often each word was seen.
        merges: At most this many; learning stops at pairs seen once.

    Returns:
        The text of a codes file of subword-nmt.
    """
    codes = io.StringIO()
    if not any(len(word) > 1 for word in counts):
        return "#version: 0.2\n"
    from subword_nmt.learn_bpe import learn_bpe

    lines = [f"{word} {count}" for word, count in sorted(counts.items())]
    # The package draws a progress bar on stderr.
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(lines, codes, merges, is_dict=True)
    return codes.getvalue()


class BytePairTokenizer(Tokenizer):
    """Moses tokens, or words as they stand, cut by learned merges."""

    subword = True

    def __init__(self, config: BytePairConfig, codes: str) -> None:
        """Take the merges as a codes file of subword-nmt, as `learn_merges` gives them."""
        from subword_nmt.apply_bpe import BPE

        self.config = config
        self.codes = codes
        self._words = (
            WordsTokenizer(WordsConfig())
            if config.tokenized
            else MosesTokenizer(MosesConfig(language=config.language))
        )
        # The package would read an empty list of merges as one invalid merge.
        empty = codes.count("\n") < 2
        self._bpe = None if empty else BPE(io.StringIO(codes), separator=MARK)

    def __reduce__(self) -> tuple[type["BytePairTokenizer"], tuple[BytePairConfig, str]]:
        """Rebuild from the merges, without the cache."""
        return BytePairTokenizer, (self.config, self.codes)

    def pretokenize(self, line: str) -> list[str]:
        """The words of the line."""
        return self._words.pretokenize(line)

    def segment(self, unit: str) -> Sequence[str]:
        """The subwords of a word, all but the last marked."""
        if self._bpe is None:
            return [*(f"{character}{MARK}" for character in unit[:-1]), unit[-1]]
        if len(self._bpe.cache) > CACHED:
            self._bpe.cache.clear()
        blocks = [unit[start : start + LONGEST] for start in range(0, len(unit), LONGEST)]
        tokens: list[str] = []
        for block in blocks:
            tokens += self._bpe.segment_tokens([block])
            tokens[-1] += MARK
        tokens[-1] = tokens[-1].removesuffix(MARK)
        return tokens

    def decode(self, tokens: Sequence[str]) -> str:
        """The subwords joined, then detokenised, unless the text was tokenised."""
        words = (" ".join(tokens) + " ").replace(f"{MARK} ", "")
        return self._words.decode(split_at_spaces(words))

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """A word more after every token without the mark."""
        ends = (not token.endswith(MARK) for token in tokens)
        return list(accumulate(ends, initial=0))[: len(tokens)]

    def save(self, folder: Path, side: str) -> None:
        """Write the merges as `SIDE.bpe`, a codes file of subword-nmt."""
        write_atomic(folder / f"{side}.bpe", self.codes.encode())

    @classmethod
    def load(cls, config: BytePairConfig, folder: Path, side: str) -> "BytePairTokenizer":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or not a list of merges.
        """
        path = folder / f"{side}.bpe"
        try:
            codes = read_bytes(path).decode()
        except UnicodeDecodeError:
            raise DataError(f"{path}: not a list of merges: not UTF-8") from None
        header, _, merges = codes.partition("\n")
        lines = merges.removesuffix("\n").split("\n") if merges else []
        if header != "#version: 0.2" or any(len(line.split(" ")) != 2 for line in lines):
            raise DataError(
                f"{path}: not a list of merges: expected `#version: 0.2`, then two symbols a line"
            )
        return cls(config, codes)
