"""SentencePiece (Kudo & Richardson, 2018): byte pair encoding or a unigram model, learned from raw text.

Training is deterministic: the sentences have a fixed order, the seed is fixed, and one thread is used,
because the unigram model sums floating-point numbers in the order of its threads.

Decoding restores the text, except that runs of white space become one space; there is no Unicode
normalization. A character without a subword token is encoded as its UTF-8 bytes, with one token per byte
(`<0xC3>` `<0x9C>` for the letter U+00DC). U+2581 represents a space in tokens; in text, it is encoded as
bytes.
"""

import io
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, Self

import sentencepiece

from regard.config import configclass, option
from regard.errors import DataError
from regard.text.tokenizers.base import Tokenizer, joint_option, register_tokenizer
from regard.text.tokenizers.words import SPACE_MARK
from regard.text.vocabulary import SPECIAL_TOKENS, UNK
from regard.text.words import normalize_whitespace

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The 256 byte tokens of SentencePiece."""
LARGE_SCRIPT_SIZE = 1_000
"""Number of distinct characters above which a text is assumed to be in a script such as Chinese, whose rarest
characters get no token."""
BYTE_VALUES = {token: byte for byte, token in enumerate(BYTE_TOKENS)}
"""The value of each byte token."""
_PRIVATE = range(0xE000, 0xF900)


@configclass
class SentencePieceConfig:
    """Subword tokenization with SentencePiece, trained on raw text."""

    kind: Literal["sentencepiece"] = option(
        default="sentencepiece", help="SentencePiece, trained on the training text."
    )
    model_type: Literal["bpe", "unigram"] = option(
        default="bpe", help="Model type: byte pair encoding or a unigram language model."
    )
    vocab_size: int = option(
        default=8_000,
        help="Vocabulary size of the SentencePiece model, including characters and the 256 byte tokens. "
        "Small training text gives fewer tokens.",
        ge=1,
        le=1_000_000,
    )
    joint: bool = joint_option()
    character_coverage: float | None = option(
        default=None,
        help="Fraction of the characters of the text that get a token of their own. Default: 1, or 0.9995 "
        "for text with more than 1,000 distinct characters, as in Chinese or Japanese.",
        gt=0,
        le=1,
    )
    byte_fallback: bool = option(
        default=True,
        help="Encode characters without a token as bytes. If false, they are unknown tokens.",
    )
    max_training_lines: int = option(
        default=500_000,
        help="Maximum number of lines per language for training, evenly spaced in the corpora.",
        ge=1,
        le=100_000_000,
    )


@register_tokenizer("sentencepiece", SentencePieceConfig)
class SentencePieceTokenizer(Tokenizer):
    """A tokenizer with a trained SentencePiece model; a token that starts a word begins with U+2581.

    Without `byte_fallback`, a character outside the model is a token by itself, so that it can be copied.
    """

    subword = True
    extension = "sentencepiece"
    word_start = re.compile(SPACE_MARK)

    def __init__(self, config: SentencePieceConfig, learned: bytes) -> None:
        """Initialize from the content of a model file, as written by its trainer."""
        super().__init__(config, learned)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=learned)  # type: ignore[call-arg]
        except RuntimeError:
            raise ValueError("not a SentencePiece model") from None
        # Id 0 is the unknown token.
        ids = range(1, self._processor.get_piece_size())
        self._subwords = frozenset(self._processor.id_to_piece(i) for i in ids)
        self.inventory = self._subwords
        self._has_byte_tokens = self._subwords.issuperset(BYTE_TOKENS)
        if self._has_byte_tokens:
            # With all characters, any token that is not in the vocabulary can be spelled.
            characters = sorted(subword for subword in self._subwords if len(subword) == 1)
            self.required_tokens = (*BYTE_TOKENS, *characters)

    @classmethod
    def create(cls, config: SentencePieceConfig, text: Iterable[str], side: str) -> Self:
        """Train a model.

        Raises:
            DataError: if training fails, for example if the vocabulary size is less than the number of
                characters.
        """
        model = io.BytesIO()
        sentences = [normalize_whitespace(line) for line in text]
        coverage = config.character_coverage
        if coverage is None:
            coverage = 0.9995 if len(set[str]().union(*sentences)) > LARGE_SCRIPT_SIZE else 1.0
        # The trainer samples, and its result must not depend on earlier calls.
        sentencepiece.set_random_generator_seed(1)
        try:
            sentencepiece.SentencePieceTrainer.train(  # type: ignore[attr-defined]
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type=config.model_type,
                vocab_size=config.vocab_size,
                character_coverage=coverage,
                byte_fallback=config.byte_fallback,
                normalization_rule_name="identity",
                hard_vocab_limit=False,  # small text gives fewer tokens instead of an error
                num_threads=1,
                input_sentence_size=0,
                shuffle_input_sentence=False,
                # The vocabulary of this package has the other special symbols.
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                minloglevel=2,
            )
        except RuntimeError as error:
            # The message starts with the position in the source code of the library.
            reason = str(error).rpartition("] ")[2].strip() or error
            raise DataError(
                f"SentencePiece cannot train a model with a vocabulary size of {config.vocab_size}: {reason}"
            ) from None
        return cls(config, model.getvalue())

    def pretokenize(self, line: str) -> list[str]:
        """Return the subword tokens of a line."""
        line = normalize_whitespace(line)
        if SPACE_MARK in line:
            return self._with_marks(line)
        return self._processor.encode(line, out_type=str)

    def _with_marks(self, line: str) -> list[str]:
        """Return the tokens of a line that contains U+2581, which SentencePiece would treat as a space.

        U+2581 is replaced by an unused private-use character, whose byte tokens are then replaced by those of
        U+2581. Without byte tokens, it is unknown.
        """
        # A character of a subword would not be encoded as bytes, so it cannot be the substitute.
        used = set(line).union(*self._subwords)
        substitute = next(chr(code) for code in _PRIVATE if chr(code) not in used)
        subwords = self._processor.encode(line.replace(SPACE_MARK, substitute), out_type=str)
        if not self._has_byte_tokens:
            return [subword.replace(substitute, SPECIAL_TOKENS[UNK]) for subword in subwords]
        substitute_tokens = _byte_tokens(substitute)
        starts = [
            i
            for i in range(len(subwords))
            if tuple(subwords[i : i + len(substitute_tokens)]) == substitute_tokens
        ]
        for start in starts:
            subwords[start : start + len(substitute_tokens)] = _byte_tokens(SPACE_MARK)
        return subwords

    def split_unknown(self, token: str) -> Sequence[str]:
        """Return the characters of a token; characters outside the model become byte tokens."""
        if not self._has_byte_tokens or token in BYTE_VALUES:
            return (token,)
        return [
            part
            for character in token
            for part in ((character,) if character in self._subwords else _byte_tokens(character))
        ]

    def decode(self, tokens: Sequence[str]) -> str:
        """Join tokens to text; U+2581 becomes a space, and byte tokens are decoded as UTF-8."""
        text = []
        for is_bytes, run in groupby(tokens, BYTE_VALUES.__contains__):
            if is_bytes and self._has_byte_tokens:
                text.append(bytes(BYTE_VALUES[token] for token in run).decode(errors="replace"))
            else:
                text.append("".join(run).replace(SPACE_MARK, " "))
        # The mark of the first word becomes a space at the start of the text.
        return "".join(text).strip(" ")


def _byte_tokens(character: str) -> tuple[str, ...]:
    """Return the byte tokens of the UTF-8 encoding of a character."""
    return tuple(BYTE_TOKENS[byte] for byte in character.encode())
