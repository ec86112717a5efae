"""SentencePiece (Kudo & Richardson 2018): byte pair encoding or a unigram model, learned from raw text.

Learning gives the same model on every run: the sentences come from an iterator in a fixed order, on one
thread (the unigram model sums in the order of its threads), with a fixed seed. Text is not normalised, so
that decoding gives it back; only runs of white space become one space. The mark U+2581 stands for a space,
also where the text itself holds it.
"""

import io
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

import sentencepiece

from regard.config import config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.words import SPACE
from regard.errors import DataError

__all__ = ["SentencePieceConfig", "SentencePieceTokenizer", "learn_pieces"]


@config
class SentencePieceConfig:
    """Subwords learned by SentencePiece from raw text."""

    kind: Literal["sentencepiece"] = option(
        default="sentencepiece", help="SentencePiece, learned from the training text."
    )
    model: Literal["bpe", "unigram"] = option(default="bpe", help="The kind of model.")
    size: int = option(default=8_000, help="How many pieces to learn (fewer where the text is small).", ge=1)
    joint: bool = option(default=True, help="Learn on source and target together.")
    coverage: float = option(
        default=0.9995, help="The share of the text's characters that get a piece.", gt=0, le=1
    )
    seed: int = option(default=1, help="The seed of learning.", ge=0)
    sample: int = option(
        default=500_000, help="Learn from at most this many lines a side, evenly spread.", ge=1
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
    sentencepiece.set_random_generator_seed(config.seed)
    try:
        sentencepiece.SentencePieceTrainer.train(  # type: ignore[attr-defined]
            sentence_iterator=(" ".join(line.split()) for line in lines),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.size,
            character_coverage=config.coverage,
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


def _reason(message: str) -> str:
    """The sentence of the library's message, without its source line."""
    return message.rpartition("] ")[2].strip() or message


class SentencePieceTokenizer(Tokenizer):
    """Pieces of a learned SentencePiece model; a piece that starts a word starts with U+2581.

    Characters without a piece come out as they are, so that an unknown one can be copied.
    """

    def __init__(self, config: SentencePieceConfig, model: bytes) -> None:
        """Take a model file's bytes, as `learn_pieces` gives them."""
        self.config = config
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)  # type: ignore[call-arg]
        # Id 0 is the unknown piece.
        pieces = range(1, self._processor.get_piece_size())
        self.inventory = frozenset(self._processor.id_to_piece(i) for i in pieces)

    def __reduce__(self) -> tuple[type["SentencePieceTokenizer"], tuple[SentencePieceConfig, bytes]]:
        """Rebuild from the model's bytes."""
        return SentencePieceTokenizer, (self.config, self.model)

    def pretokenize(self, line: str) -> list[str]:
        """The pieces of the line."""
        return self._processor.encode(" ".join(line.split()), out_type=str)

    def decode(self, tokens: Sequence[str]) -> str:
        """The pieces joined, marks as spaces."""
        return "".join(tokens).replace(SPACE, " ").strip(" ")

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
