"""SentencePiece (Kudo & Richardson 2018): byte pair encoding or a unigram model, learned from raw text.

Learning gives the same model on every run: the sentences come from an iterator in a fixed order, on one
thread (the unigram model sums in the order of its threads), with a fixed seed.

Decoding gives the text back: text is not normalised, and only runs of white space become one space. A
character that has no piece is written as the bytes of its UTF-8 form, each a token of its own (`<0xC3>`
`<0x9C>` for the letter U+00DC). The mark U+2581 stands for a space in tokens; in text it is written as bytes.
"""

import io
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Literal

import sentencepiece

from regard.config import config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.words import SPACE
from regard.errors import DataError

__all__ = ["SentencePieceConfig", "SentencePieceTokenizer", "learn_pieces"]

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The tokens that SentencePiece writes for the bytes of a character without a piece."""
MANY_CHARACTERS = 1_000
"""Text with more different characters than this is in a script whose rarest characters get no piece."""
BYTE_OF = {token: byte for byte, token in enumerate(BYTES)}
"""The byte that each of them stands for."""
_PRIVATE = range(0xE000, 0xF900)


@config
class SentencePieceConfig:
    """Subwords learned by SentencePiece from raw text."""

    kind: Literal["sentencepiece"] = option(
        default="sentencepiece", help="SentencePiece, learned from the training text."
    )
    model: Literal["bpe", "unigram"] = option(default="bpe", help="The kind of model.")
    size: int = option(
        default=8_000,
        help="Number of pieces, characters and the 256 bytes included; fewer are learned from small text.",
        ge=1,
        le=1_000_000,
    )
    joint: bool = option(default=True, help="Learn on source and target together.")
    coverage: float | None = option(
        default=None,
        help="Share of the text's characters that get a piece. Default: 1, or 0.9995 for text with more than "
        "1,000 different characters, as in Chinese or Japanese.",
        gt=0,
        le=1,
    )
    byte_fallback: bool = option(
        default=True,
        help="Write characters without a piece as bytes; false makes them unknown tokens.",
    )
    seed: int = option(default=1, help="The seed of learning.", ge=0, le=4_294_967_295)
    sample: int = option(
        default=500_000,
        help="Learn from at most this many lines a side, evenly spread.",
        ge=1,
        le=100_000_000,
    )


def learn_pieces(lines: Iterable[str], config: SentencePieceConfig) -> bytes:
    """Learn a SentencePiece model.

    Args:
        lines: The text; the caller caps it (`config.sample`).
        config: Kind, size, coverage and seed.

    Returns:
        The bytes of a SentencePiece model file.

    Raises:
        DataError: if it cannot be learned, as when there are more characters than pieces.
    """
    model = io.BytesIO()
    sentences = [" ".join(line.split()) for line in lines]
    sentencepiece.set_random_generator_seed(config.seed)
    try:
        sentencepiece.SentencePieceTrainer.train(  # type: ignore[attr-defined]
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.size,
            character_coverage=_coverage(sentences) if config.coverage is None else config.coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            hard_vocab_limit=False,
            num_threads=1,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(f"SentencePiece cannot learn {config.size} pieces: {_reason(str(error))}") from None
    return model.getvalue()


def _coverage(sentences: Sequence[str]) -> float:
    """Return the share of characters that get a piece: all, unless the script has thousands of them."""
    characters = set[str]().union(*sentences)
    return 0.9995 if len(characters) > MANY_CHARACTERS else 1.0


def _reason(message: str) -> str:
    """The sentence of the library's message, without its source line."""
    return message.rpartition("] ")[2].strip() or message


class SentencePieceTokenizer(Tokenizer):
    """Pieces of a learned SentencePiece model; a piece that starts a word starts with U+2581.

    Without `byte_fallback`, characters without a piece are tokens as they are, so that they can be copied.
    """

    subword = True

    def __init__(self, config: SentencePieceConfig, model: bytes) -> None:
        """Take a model file's bytes, as `learn_pieces` gives them."""
        self.config = config
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)  # type: ignore[call-arg]
        # Id 0 is the unknown piece.
        pieces = range(1, self._processor.get_piece_size())
        self._pieces = frozenset(self._processor.id_to_piece(i) for i in pieces)
        self.inventory = self._pieces
        self._bytes = self._pieces.issuperset(BYTES)
        if self._bytes:
            characters = sorted(piece for piece in self._pieces if len(piece) == 1)
            self.always = (*BYTES, *characters)

    def __reduce__(self) -> tuple[type["SentencePieceTokenizer"], tuple[SentencePieceConfig, bytes]]:
        """Rebuild from the model's bytes."""
        return SentencePieceTokenizer, (self.config, self.model)

    def pretokenize(self, line: str) -> list[str]:
        """The pieces of the line."""
        line = " ".join(line.split())
        if SPACE in line and self._bytes:
            return self._with_marks(line)
        return self._processor.encode(line, out_type=str)

    def _with_marks(self, line: str) -> list[str]:
        """Return the pieces of a line that holds U+2581, which SentencePiece would read as a space.

        A private character that occurs nowhere else stands for it, and its bytes are then exchanged.
        """
        taken = set(line).union(*self._pieces)
        other = next(chr(code) for code in _PRIVATE if chr(code) not in taken)
        pieces = self._processor.encode(line.replace(SPACE, other), out_type=str)
        written = _spelled_in_bytes(other)
        starts = [i for i in range(len(pieces)) if tuple(pieces[i : i + len(written)]) == written]
        for start in starts:
            pieces[start : start + len(written)] = _spelled_in_bytes(SPACE)
        return pieces

    def spell(self, token: str) -> Sequence[str]:
        """Return the characters of a token, and the bytes of those without a piece."""
        if not self._bytes or token in BYTE_OF:
            return (token,)
        pieces = self._pieces
        return [
            part
            for character in token
            for part in ((character,) if character in pieces else _spelled_in_bytes(character))
        ]

    def decode(self, tokens: Sequence[str]) -> str:
        """The pieces joined, marks as spaces, runs of bytes as the characters they stand for."""
        text = []
        for is_bytes, run in groupby(tokens, BYTE_OF.__contains__):
            if is_bytes and self._bytes:
                text.append(bytes(BYTE_OF[token] for token in run).decode(errors="replace"))
            else:
                text.append("".join(run).replace(SPACE, " "))
        return "".join(text).strip(" ")

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """A word more at every piece that starts with the mark."""
        return list(accumulate(int(token.startswith(SPACE) and i > 0) for i, token in enumerate(tokens)))

    def save(self, folder: Path, side: str) -> None:
        """Write the model as `SIDE.sentencepiece`."""
        write_atomic(folder / f"{side}.sentencepiece", self.model)

    @classmethod
    def load(cls, config: SentencePieceConfig, folder: Path, side: str) -> "SentencePieceTokenizer":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or not a SentencePiece model.
        """
        path = folder / f"{side}.sentencepiece"
        try:
            return cls(config, read_bytes(path))
        except RuntimeError:
            raise DataError(f"{path}: not a SentencePiece model") from None


def _spelled_in_bytes(character: str) -> tuple[str, ...]:
    """Return the byte tokens of a character's UTF-8 form."""
    return tuple(BYTES[byte] for byte in character.encode())
