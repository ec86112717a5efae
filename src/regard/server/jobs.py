"""The jobs of an engine: sentences to translate or pairs to score, and the settings common to a batch."""

from dataclasses import dataclass

__all__ = ["PairJob", "ScoreSettings", "SearchSettings", "SentenceJob"]


@dataclass(frozen=True)
class SearchSettings:
    """The settings common to the translations of a batch.

    Attributes:
        num_return: Number of translations per sentence.
        beam_size: Beam size. Default: the model's own.
        tokenized: Whether the text is already tokenized and must not be changed.
    """

    num_return: int = 1
    beam_size: int | None = None
    tokenized: bool = False


@dataclass(frozen=True)
class ScoreSettings:
    """The settings common to the scores of a batch.

    Attributes:
        tokenized: Whether the text is already tokenized and must not be changed.
    """

    tokenized: bool = False


@dataclass(frozen=True)
class SentenceJob:
    """A sentence to translate.

    Attributes:
        text: The sentence, without line breaks.
        fertilities: Tuples of word index, lower bound and upper bound of the attention of the word. An upper
            bound of None is the model's own. The bounds apply to each subword token of the word.
        attention: Whether to return the attention weights of words.
        tokens: Whether to return the attention weights of tokens, too.
    """

    text: str
    fertilities: tuple[tuple[int, float, float | None], ...] = ()
    attention: bool = True
    tokens: bool = False


@dataclass(frozen=True)
class PairJob:
    """A source sentence and a translation to score."""

    source: str
    target: str
