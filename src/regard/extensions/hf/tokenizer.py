"""A pre-trained Hugging Face tokenizer, with a mapping between its ids and the ids of this package.

The tokens are those of the Hugging Face tokenizer. The vocabulary is not counted: its ids follow the order of
the library, except that the padding, unknown and end symbols are replaced by the special symbols of this
package. `library_ids` maps ids of this package to ids of the library. Special tokens around a source line
(`[CLS]`, `</s>`, a language code) are not words of the text and are treated as sinks, see `regard.data.text`.
"""

import tempfile
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from regard.config import configclass, option
from regard.config.extensions import resolve_directory
from regard.errors import DataError, UsageError
from regard.extensions.hf.files import (
    convert_errors,
    load_hf_tokenizer,
    pack_tokenizer,
    tokenizer_files,
    unpack_tokenizer,
)
from regard.text.reading import read_bytes
from regard.text.tokenizers.base import Tokenizer, register_tokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from regard.text.words import ASCII_WHITESPACE, normalize_whitespace

WORD_START_MARKS = ("▁", "Ġ")
"""Prefixes of a token that starts a word: of SentencePiece and of byte-level BPE."""
CONTINUATION_PREFIX, WORD_END_SUFFIX = "##", "</w>"
"""Prefix of a token that continues a word (WordPiece), suffix of a token that ends one (original BPE)."""


@configclass
class PretrainedTokenizerConfig:
    """A pre-trained Hugging Face tokenizer."""

    kind: Literal["pretrained"] = option(
        default="pretrained", help="A pre-trained Hugging Face tokenizer; requires the extra `hf`."
    )
    path: str = option(help="Directory of the Hugging Face tokenizer.")
    language: str | None = option(
        default=None,
        help="Language code of a multilingual tokenizer, such as de_DE or deu_Latn. Default: src_lang or "
        "tgt_lang in the files of the tokenizer.",
    )
    prefix: str = option(
        default="",
        help="Text prepended to each source line in training and translation, such as the task prefix of "
        "T5. Default: none.",
    )


@register_tokenizer("pretrained", PretrainedTokenizerConfig)
class PretrainedTokenizer(Tokenizer):
    """A pre-trained Hugging Face tokenizer.

    Args:
        config: The configuration.
        archive: The files of the tokenizer, from `regard.extensions.hf.files.pack_tokenizer`.
        side: `source` or `target`.
        where: Name of the tokenizer in messages.

    Attributes:
        library_ids: The library's id for each id of this package, including special symbols.
        prefix_ids: The library's ids of the tokens before every source line.
        suffix_ids: The library's ids of the tokens after every source line.
        multilingual: Whether the tokenizer adds a language code to each line.
        language_id: The library's id of the language code, or None.
        num_library_ids: The highest id of the library plus 1.

    Raises:
        DataError: if the library cannot load the files, or the tokenizer has no end symbol.
        UsageError: if the library is not installed, or the tokenizer does not support the language.
    """

    subword = True
    has_vocabulary = True
    extension = "pretrained"
    plain_text = True

    def __init__(
        self, config: PretrainedTokenizerConfig, archive: bytes, side: str, where: str = "the tokenizer"
    ) -> None:
        """Load the tokenizer."""
        super().__init__(config, archive)
        self.side, self.where = side, where
        with tempfile.TemporaryDirectory() as name:
            unpack_tokenizer(archive, Path(name), where)
            self._hf = load_hf_tokenizer(Path(name), where)
        # The library does not validate the files, so that wrong values raise all kinds of errors.
        with convert_errors(DataError, f"{where}: the files of the tokenizer are not valid"):
            self._map_ids()

    def _map_ids(self) -> None:
        hf, side, where = self._hf, self.side, self.where
        self.multilingual = hasattr(hf, "set_src_lang_special_tokens")
        # Language codes that are not in the library's vocabulary (M2M-100).
        self._languages: dict[str, int] = dict(getattr(hf, "lang_token_to_id", {}))
        self.language_id = self._set_language()
        vocabulary = self._vocabulary()
        end = hf.eos_token_id if hf.eos_token_id is not None else hf.sep_token_id
        if end is None:
            raise DataError(f"{where}: the tokenizer has neither an end symbol (eos) nor a separator (sep)")
        pad = end if hf.pad_token_id is None else hf.pad_token_id
        # A tokenizer without an unknown symbol never returns one, so any id can take its place.
        unknown = pad if hf.unk_token_id is None else hf.unk_token_id
        start = next(symbol for symbol in (hf.bos_token_id, hf.cls_token_id, end) if symbol is not None)
        # These symbols are represented by PAD, UNK and EOS of this package.
        reserved_ids = {pad, unknown, end}
        ranked = sorted((number, token) for token, number in vocabulary.items())
        entries = [(n, token) for n, token in ranked if n not in reserved_ids and token and "\n" not in token]
        self.pretrained_tokens = tuple(token for _, token in entries)
        self.library_ids = (pad, unknown, start, end, end, *(number for number, _ in entries))
        self._names = {number: token for token, number in vocabulary.items()}
        self.num_library_ids = max(self._names) + 1
        self._specials = {*hf.all_special_tokens, *self._languages} - {hf.unk_token}
        self.prefix_ids, self.suffix_ids = self._special_ids_around()
        around = (*self.prefix_ids, *self.suffix_ids) if side == "source" else ()
        self.special_tokens = tuple(self._names[number] for number in around)
        self._word_mark = _word_mark(vocabulary)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the archive; the tokenizer is loaded from it again."""
        return type(self), (self.config, self.learned, self.side, self.where)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of all tokens."""
        return Vocabulary((*SPECIAL_TOKENS, *(self.pretrained_tokens or ())))

    def _set_language(self) -> int | None:
        """Set the language of a multilingual tokenizer and return the id of its code, or None."""
        language, hf = self.config.language, self._hf
        if self.side == "target" and self.multilingual:
            language = language or hf.tgt_lang
            # Target text cannot be tokenized without a language. Any language gives the same tokens, since it
            # only changes the special tokens around the text.
            hf.tgt_lang = language or hf.src_lang
        if language is None:
            return None
        find = getattr(hf, "get_lang_id", hf.convert_tokens_to_ids)
        try:
            number = find(language) if self.multilingual else None
        except KeyError:
            number = None
        if number is None or number == hf.unk_token_id:
            raise UsageError(f"{self.where}: the tokenizer does not support the language {language!r}")
        hf.src_lang = language
        return number

    def _vocabulary(self) -> dict[str, int]:
        """Return the library's ids by token."""
        marian = getattr(self._hf, "target_encoder", None) if self.side == "target" else None
        return {**(self._hf.get_vocab() if marian is None else marian), **self._languages}

    def _encoded(self, text: str, specials: bool, split_specials: bool = False) -> list[int]:
        options = {"add_special_tokens": specials, "split_special_tokens": split_specials, "verbose": False}
        name = "text" if self.side == "source" else "text_target"
        # The library fails here if its files contradict each other, such as merges of unknown tokens.
        with convert_errors(DataError, f"{self.where}: the files of the tokenizer are not valid"):
            return list(self._hf(**{name: text}, **options)["input_ids"])

    def _special_ids_around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids before and after a line, including those of the prefix."""
        before, after = self._added_ids()
        return (*before, *self._encoded(self.config.prefix, False)), after

    def _added_ids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids that the library adds before and after a line."""
        # Compare the tokens of a short text with and without special tokens.
        bare, whole = self._encoded("a", False), self._encoded("a", True)
        for first in range(len(whole) - len(bare) + 1):
            if whole[first : first + len(bare)] == bare:
                return tuple(whole[:first]), tuple(whole[first + len(bare) :])
        raise DataError(
            f"{self.where}: the tokenizer is not supported: it splits text differently when it adds special "
            "tokens"
        )

    @classmethod
    def create(cls, config: PretrainedTokenizerConfig, text: Iterable[str], side: str) -> Self:
        """Load the tokenizer of a Hugging Face directory.

        Raises:
            DataError: if the directory is missing or contains no tokenizer.
        """
        return cls(config, pack_tokenizer(resolve_directory(config.path)), side, config.path)

    @classmethod
    def input_files(cls, config: Any) -> Sequence[Path]:
        """Return the files of the tokenizer."""
        return tokenizer_files(resolve_directory(config.path))

    def pretokenize(self, line: str) -> list[str]:
        """Return the tokens of a line, without the special tokens around it."""
        # Line breaks and tabs are tokens of some libraries, but not of this text.
        line = normalize_whitespace(line)
        ids = self._encoded(line, False, True) if line else []
        # M2M-100 returns the id of the file as it is, which need not be in the vocabulary.
        with convert_errors(DataError, f"{self.where}: the files of the tokenizer are not valid"):
            tokens = [self._names[number] for number in ids]
        # `</s>` in text is no end symbol. Unigram models have a token for it also when it is split.
        return [SPECIAL_TOKENS[UNK] if token in self._specials else token for token in tokens]

    def encode_inside(self, words: str) -> list[str] | None:
        """Return the tokens of words after other words: byte-level BPE marks the space before a word."""
        if self._word_mark != WORD_START_MARKS[1]:
            return None
        first, whole = self.pretokenize("a"), self.pretokenize(f"a {words}")
        return whole[len(first) :] if whole[: len(first)] == first else None

    def decode(self, tokens: Sequence[str]) -> str:
        """Convert tokens to text with the library, without special tokens."""
        # A model may generate the language code as its first token.
        text_tokens = [token for token in tokens if token not in self._specials]
        if not text_tokens:
            return ""
        text = self._hf.convert_tokens_to_string(text_tokens)
        if getattr(self._hf, "clean_up_tokenization_spaces", False):
            text = self._hf.clean_up_tokenization(text)
        return text.strip(ASCII_WHITESPACE)

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token, according to the word marks of the tokenizer."""
        if self._word_mark == CONTINUATION_PREFIX:
            new = [not token.startswith(CONTINUATION_PREFIX) for token in tokens]
        elif self._word_mark == WORD_END_SUFFIX:
            # The mark is on the last token of a word, so the token after it starts a new word.
            new = [True, *(token.endswith(WORD_END_SUFFIX) for token in tokens)][: len(tokens)]
        else:
            # The space mark of this package stands for a space in tests of word boundaries.
            marks = (self._word_mark, WORD_START_MARKS[0]) if self._word_mark else ("",)
            new = [token.startswith(marks) or token in self._specials for token in tokens]
        return list(accumulate(int(is_new and place > 0) for place, is_new in enumerate(new)))

    @classmethod
    def load(cls, config: PretrainedTokenizerConfig, directory: Path, side: str) -> "PretrainedTokenizer":
        """Load a tokenizer that was written by `save`.

        Raises:
            DataError: if the file is missing or invalid.
        """
        path = directory / f"{side}.{cls.extension}"
        return cls(config, read_bytes(path), side, str(path))


def _word_mark(vocabulary: Iterable[str]) -> str:
    """Return the word mark with the highest frequency, or an empty string if every token is a word."""
    counts = {
        mark: sum(token.startswith(mark) for token in vocabulary)
        for mark in (*WORD_START_MARKS, CONTINUATION_PREFIX)
    }
    counts[WORD_END_SUFFIX] = sum(token.endswith(WORD_END_SUFFIX) for token in vocabulary)
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""
