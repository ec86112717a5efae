"""What is asked of an engine: sentences to translate or to score, and what a batch of them shares."""

from dataclasses import dataclass

__all__ = ["PairJob", "ScoreSettings", "SearchSettings", "SentenceJob"]


@dataclass(frozen=True)
class SearchSettings:
    """What translations of one batch share.

    Attributes:
        nbest: How many of each sentence.
        beam: How wide; none: as the model has it.
        tokenized: Whether the text is tokenised already, and taken as it stands.
    """

    nbest: int = 1
    beam: int | None = None
    tokenized: bool = False


@dataclass(frozen=True)
class ScoreSettings:
    """What scores of one batch share.

    Attributes:
        tokenized: Whether the text is tokenised already, and taken as it stands.
    """

    tokenized: bool = False


@dataclass(frozen=True)
class SentenceJob:
    """A sentence to translate.

    Attributes:
        text: The sentence, without line breaks.
        fertilities: Word, the least attention it must receive and the most it may; none: as the model has it.
            Each piece of a word gets what the word gets.
        attention: Whether the weights are wanted.
        tokens: Whether those of tokens are wanted, too.
    """

    text: str
    fertilities: tuple[tuple[int, float, float | None], ...] = ()
    attention: bool = True
    tokens: bool = False


@dataclass(frozen=True)
class PairJob:
    """A sentence and a translation to score."""

    source: str
    target: str
