"""Byte pair encoding (Sennrich et al., 2016) and WordPiece (Schuster & Nakajima, 2012).

They are applied to Moses tokens, or to the words of tokenized text, and by default learned on source and
target together. Byte pair encoding is that of the package subword-nmt; a token that does not end its word is
marked with `@@`: `low@@ est`.

WordPiece, the subword tokens of BERT, is that of the package tokenizers; a token that does not start its word
begins with `##`: `low ##est`. A word is split from the left, each time into the longest token in the
vocabulary (Wu et al., 2016, Section 4.1; Devlin et al., 2019). A word with a character that did not occur in
the training text is a single token, which is unknown. The package chooses the tokens by frequency, as byte
pair encoding does, not by likelihood as in the paper.
"""

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from regard.config import configclass, option
from regard.errors import UsageError
from regard.text.tokenizers.base import Tokenizer, joint_option, register_tokenizer
from regard.text.tokenizers.moses import MosesConfig, MosesTokenizer
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.words import split_whitespace

MAX_WORD_LENGTH = 128
"""Maximum length of a word in characters, since segmentation takes quadratic time. A longer word is split
before byte pair encoding, and is a single token, which is unknown, with WordPiece."""
MAX_CACHE_SIZE = 200_000
"""Maximum number of cached words, which limits the memory of a server."""
_NO_MERGES = b"#version: 0.2\n"
_BPE_MARK, _WORDPIECE_MARK = "@@", "##"
_UNKNOWN = "[UNK]"


@configclass
class _SubwordConfig:
    """The options of subword tokens of words."""

    kind: str = option(default="", help="Tokenizer.")
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

    def __post_init__(self) -> None:
        """Check that Moses supports the language, unless the text is tokenized."""
        if not self.tokenized:
            MosesConfig(language=self.language)


@configclass
class BytePairConfig(_SubwordConfig):
    """Byte pair encoding of words."""

    kind: Literal["bpe"] = option(
        default="bpe", help="Byte pair encoding of Moses tokens (Sennrich et al., 2016)."
    )
    num_merges: int = option(
        default=32_000, help="Maximum number of merge operations to learn.", ge=0, le=1_000_000
    )


@configclass
class WordPieceConfig(_SubwordConfig):
    """WordPiece tokens of words."""

    kind: Literal["wordpiece"] = option(
        default="wordpiece", help="WordPiece tokens of Moses tokens, as in BERT (Schuster & Nakajima, 2012)."
    )
    vocab_size: int = option(
        default=8_000,
        help="Maximum number of tokens to learn, including characters. All characters of the text are kept.",
        ge=1,
        le=1_000_000,
    )


class _WordSplitter(Tokenizer):
    """Base class of tokenizers that split Moses tokens, or the words of tokenized text."""

    subword = True
    plain_text = True

    def __init__(self, config: BytePairConfig | WordPieceConfig, learned: bytes) -> None:
        super().__init__(config, learned)
        moses = MosesConfig(language=config.language) if not config.tokenized else None
        self._words = WordsTokenizer(WordsConfig()) if moses is None else MosesTokenizer(moses)

    def pretokenize(self, line: str) -> list[str]:
        """Return the words of a line."""
        return self._words.pretokenize(line)


@register_tokenizer("bpe", BytePairConfig)
class BytePairTokenizer(_WordSplitter):
    """A tokenizer that applies byte pair encoding to Moses tokens or to white space separated words."""

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


def _library() -> Any:
    """Return the package tokenizers.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        import tokenizers
    except ImportError:
        raise UsageError(
            "the tokenizer wordpiece requires tokenizers: run pip install 'regard[hf]'"
        ) from None
    return tokenizers


@register_tokenizer("wordpiece", WordPieceConfig)
class WordPieceTokenizer(_WordSplitter):
    """A tokenizer that splits Moses tokens, or white space separated words, into WordPiece tokens.

    Attributes:
        tokens: The learned tokens.
    """

    extension = "wordpiece"
    word_start = re.compile(f"(?!{_WORDPIECE_MARK}.)")

    def __init__(self, config: WordPieceConfig, learned: bytes = b"") -> None:
        """Initialize from the learned tokens, one per line, as in the file `vocab.txt` of BERT."""
        super().__init__(config, learned)
        # Only `\n` separates lines: a token may be another line separator of Unicode.
        lines = learned.decode().removesuffix("\n")
        self.tokens = tuple(lines.split("\n")) if lines else ()
        if not all(self.tokens) or len(set(self.tokens)) < len(self.tokens):
            raise ValueError("not a list of tokens: expected one per line, each once")
        vocabulary = {token: number for number, token in enumerate((_UNKNOWN, *self.tokens))}
        self._model = _library().models.WordPiece(
            vocabulary,
            unk_token=_UNKNOWN,
            max_input_chars_per_word=MAX_WORD_LENGTH,
            continuing_subword_prefix=_WORDPIECE_MARK,
        )

    def learn(self, counts: Mapping[str, int]) -> "WordPieceTokenizer":
        """Learn the tokens: the characters, at the start of a word and inside of words, then longer tokens.

        All characters are kept, even if they are more than `vocab_size`. The result is deterministic.
        """
        words = [word for word in sorted(counts) if len(word) <= MAX_WORD_LENGTH]
        inside = {character for word in words for character in word[1:]}
        starts = {word[0] for word in words}
        characters = [*sorted(starts | inside), *(f"{_WORDPIECE_MARK}{symbol}" for symbol in sorted(inside))]
        if not characters:
            return WordPieceTokenizer(self.config)
        library = _library()
        model = library.Tokenizer(library.models.WordPiece(unk_token=_UNKNOWN))
        model.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
        trainer = library.trainers.WordPieceTrainer(
            vocab_size=max(self.config.vocab_size, len(characters)),
            min_frequency=2,
            show_progress=False,
            continuing_subword_prefix=_WORDPIECE_MARK,
            # Fixed ids of all characters: otherwise ties between merges depend on the order of a hash table.
            special_tokens=characters,
        )
        # The library counts words by itself, so each word is repeated as often as it occurs.
        model.train_from_iterator((" ".join([word] * counts[word]) for word in words), trainer)
        ids = model.get_vocab(with_added_tokens=False)
        tokens = "".join(f"{token}\n" for token in sorted(ids, key=ids.__getitem__))
        return WordPieceTokenizer(self.config, tokens.encode())

    def segment(self, unit: str) -> Sequence[str]:
        """Return the subword tokens of a word; all except the first begin with `##`."""
        # A word that starts like the mark would continue the word before it, so its characters are apart.
        if unit.startswith(_WORDPIECE_MARK) and unit != _WORDPIECE_MARK:
            return [unit[0], *(f"{_WORDPIECE_MARK}{character}" for character in unit[1:])]
        tokens = [token.value for token in self._model.tokenize(unit)]
        # An unknown word is kept, so that it can be copied.
        return (unit,) if tokens == [_UNKNOWN] else tokens

    def decode(self, tokens: Sequence[str]) -> str:
        """Join subword tokens to words, and detokenize the words unless `tokenized` is set."""
        # A word may be equal to the mark.
        text = "".join(
            token.removeprefix(_WORDPIECE_MARK)
            if token.startswith(_WORDPIECE_MARK) and token != _WORDPIECE_MARK
            else f" {token}"
            for token in tokens
        )
        return self._words.decode(split_whitespace(text))
