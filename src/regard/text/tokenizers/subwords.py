"""Byte pair encoding (Sennrich et al., 2016) of the package subword-nmt.

It is applied to Moses tokens, or to the words of tokenized text, and by default learned on source and target
together. A token that does not end its word is marked with `@@`: `low@@ est`.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

from regard.config import configclass, option
from regard.text.tokenizers.base import Tokenizer, joint_option, register_tokenizer
from regard.text.tokenizers.moses import MosesConfig, MosesTokenizer
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.words import split_whitespace

MAX_WORD_LENGTH = 128
"""Maximum length of a word in characters, since segmentation takes quadratic time. A longer word is split."""
MAX_CACHE_SIZE = 200_000
"""Maximum number of cached words, which limits the memory of a server."""
_NO_MERGES = b"#version: 0.2\n"
_BPE_MARK = "@@"


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
    joint: bool = joint_option()
    tokenized: bool = option(
        default=False,
        help="Whether the text is already tokenized. If true, words are split at white space, not by the "
        "Moses tokenizer, and translations are not detokenized.",
    )
    num_merges: int = option(
        default=32_000, help="Maximum number of merge operations to learn.", ge=0, le=1_000_000
    )

    def __post_init__(self) -> None:
        """Check that Moses supports the language, unless the text is tokenized."""
        if not self.tokenized:
            MosesConfig(language=self.language)


@register_tokenizer("bpe", BytePairConfig)
class BytePairTokenizer(Tokenizer):
    """A tokenizer that applies byte pair encoding to Moses tokens or to white space separated words."""

    subword = True
    plain_text = True
    extension = "bpe"

    def __init__(self, config: BytePairConfig, learned: bytes = _NO_MERGES) -> None:
        """Initialize from the content of a codes file of subword-nmt."""
        from subword_nmt.apply_bpe import BPE

        super().__init__(config, learned)
        header, _, merges = learned.decode().partition("\n")
        lines = merges.removesuffix("\n").split("\n") if merges else []
        if header != "#version: 0.2" or any(len(line.split(" ")) != 2 for line in lines):
            raise ValueError("not a list of merges: expected `#version: 0.2`, then two symbols per line")
        # The package would interpret an empty list of merges as one invalid merge.
        self._bpe = BPE(io.StringIO(learned.decode()), separator=_BPE_MARK) if lines else None
        self._words = (
            WordsTokenizer(WordsConfig())
            if config.tokenized
            else MosesTokenizer(MosesConfig(language=config.language))
        )

    def pretokenize(self, line: str) -> list[str]:
        """Return the words of a line."""
        return self._words.pretokenize(line)

    def learn(self, counts: Mapping[str, int]) -> "BytePairTokenizer":
        """Learn merges; fewer than `num_merges` if all pairs have a frequency of 1."""
        # The package fails without any pair of characters.
        if not any(len(word) > 1 for word in counts):
            return BytePairTokenizer(self.config)
        from subword_nmt.learn_bpe import learn_bpe

        # Sorted, so that ties between merges do not depend on the order of the text.
        lines = [f"{word} {count}" for word, count in sorted(counts.items())]
        codes = io.StringIO()
        # The package writes a progress bar to stderr.
        with contextlib.redirect_stderr(io.StringIO()):
            learn_bpe(lines, codes, self.config.num_merges, is_dict=True)
        return BytePairTokenizer(self.config, codes.getvalue().encode())

    def segment(self, unit: str) -> Sequence[str]:
        """Return the subword tokens of a word; all except the last are marked with `@@`."""
        if self._bpe is None:
            # Without merges each character is a token.
            return [*(f"{character}{_BPE_MARK}" for character in unit[:-1]), unit[-1]]
        if len(self._bpe.cache) > MAX_CACHE_SIZE:
            self._bpe.cache.clear()
        tokens: list[str] = []
        for start in range(0, len(unit), MAX_WORD_LENGTH):
            tokens += self._bpe.segment_tokens([unit[start : start + MAX_WORD_LENGTH]])
            tokens[-1] += _BPE_MARK  # the mark of the last block is removed below
        tokens[-1] = tokens[-1].removesuffix(_BPE_MARK)
        # The last character of `a@@` is a token, since the token `a@@` would continue in the next word.
        if tokens[-1].endswith(_BPE_MARK):
            tokens[-1:] = [tokens[-1][:-1] + _BPE_MARK, tokens[-1][-1]]
        return tokens

    def decode(self, tokens: Sequence[str]) -> str:
        """Join subword tokens to words, and detokenize the words unless `tokenized` is set."""
        # The space at the end lets the last mark match, too.
        text = (" ".join(tokens) + " ").replace(f"{_BPE_MARK} ", "")
        return self._words.decode(split_whitespace(text))

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a word ends at every token without the mark."""
        ends = (not token.endswith(_BPE_MARK) for token in tokens)
        # The initial 0 shifts the sums by one, so that an end starts a new word at the next token.
        return list(accumulate(ends, initial=0))[: len(tokens)]
