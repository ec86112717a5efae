"""Fertilities: upper bounds on the total attention that each source token receives over a sentence.

With a budget, each batch contains the fertility of every source token. The token `<sink>`, whose fertility is
infinite, is appended after the last word (Malaviya et al., 2018, Section 4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import AfterValidator

from regard.config import TaggedUnion, configclass, option
from regard.errors import DataError
from regard.text.files import write_atomic
from regard.text.reading import read_bytes
from regard.text.vocabulary import TokenIds, Vocabulary


def _check_aligner(name: str) -> str:
    # Imported here, because a configuration without fertilities needs no aligner.
    from regard.alignment.base import ALIGNERS

    if ALIGNERS.get(name) is None:
        raise ValueError(f"expected {' or '.join(map(repr, ALIGNERS.names()))}")
    return name


AlignerName = Annotated[str, AfterValidator(_check_aligner)]
"""A kind of aligner."""

FEASIBILITY_TOLERANCE = 1e-6  # rounding of bounds that sum to one

Bounds = Sequence[tuple[float, float]]
"""Minimum and maximum attention of tokens or words. A maximum of NaN is that of the model."""
Fertilities = Bounds | np.ndarray
"""Minimum and maximum attention of each token of a sentence. If the maximum is NaN, the budget's fertility
is used, or the minimum if that is higher."""


def aligner_option() -> str:
    """Return the option of the kind of aligner."""
    return option(
        default="bayes",
        help="Word aligner, trained on the training text, that gives the links: ibm1, ibm2 (the model of "
        "Malaviya et al., 2018), hmm, bayes, or a registered one.",
    )


def _sink_option() -> bool:
    return option(
        default=True, help="Append a sink token, whose attention is unlimited, to each source sentence."
    )


@configclass
class ConstantFertilityConfig:
    """The same fertility for every token."""

    kind: Literal["constant"] = option(default="constant", help="The same fertility for every token.")
    value: float = option(
        default=2.0,
        help="Fertility: maximum total attention of each source token over a sentence.",
        gt=0,
        le=1e6,
    )
    sink: bool = _sink_option()


@configclass
class GuidedFertilityConfig:
    """The maximum fertility of each token in the word-aligned training text; 1 if it is never aligned."""

    kind: Literal["guided"] = option(
        default="guided",
        help="The maximum number of links that each vocabulary entry has in the word-aligned training text; "
        "at least 1.",
    )
    aligner: AlignerName = aligner_option()
    sink: bool = _sink_option()


@configclass
class PredictedFertilityConfig:
    """The fertility of each token in its context, predicted by a BiLSTM tagger.

    The tagger is trained on the word-aligned training text. The translation model is trained with the actual
    fertilities of the alignment (ACTUAL), and validated and used with the predicted ones (PREDICTED; Malaviya
    et al., 2018, Section 4).
    """

    kind: Literal["predicted"] = option(
        default="predicted",
        help="In training, the number of links of each token in the word-aligned text (at least 1); in "
        "validation and translation, the prediction of a tagger trained on them.",
    )
    aligner: AlignerName = aligner_option()
    slack: float = option(
        default=1.0,
        help="Slack that is added to every fertility, in training and in translation. 0 adds none.",
        ge=0,
        le=1e6,
    )
    hidden_size: int = option(
        default=256,
        help="Size of the embeddings and, per direction, of the hidden states of the tagger, a "
        "bidirectional LSTM with two layers.",
        ge=1,
        le=16_384,
    )
    max_epochs: int = option(
        default=10, help="Maximum number of training epochs of the tagger.", ge=1, le=1_000_000
    )
    patience: int = option(
        default=2,
        help="Number of epochs in a row without a better F1, on data.valid and of fertilities other than 1, "
        "after which training of the tagger stops.",
        ge=1,
        le=1_000_000,
    )
    sink: bool = _sink_option()


FertilityConfig = Annotated[
    ConstantFertilityConfig | GuidedFertilityConfig | PredictedFertilityConfig, TaggedUnion("constant")
]


class PredictorProtocol(Protocol):
    """Interface of fertility predictors: the expected number of target words of each source token."""

    def predict(self, sentences: Sequence[TokenIds]) -> list[np.ndarray]:
        """Return the expected fertility of each token of sentences, given as source ids."""
        ...


@dataclass(frozen=True, eq=False)
class Budget:
    """The fertilities of source tokens, from a table by token or from a predictor that uses the context.

    Attributes:
        config: The settings.
        table: [V], the fertility of each token id. None with a predictor.
        predictor: The fertility predictor; `config.slack` is added to its results.
    """

    config: FertilityConfig
    table: np.ndarray | None = None
    predictor: PredictorProtocol | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether two budgets give the same fertilities."""
        if not isinstance(other, Budget):
            return NotImplemented
        # The equality of dataclasses does not work for arrays, which compare element by element.
        alike = self.config == other.config and self.predictor == other.predictor
        if self.table is None or other.table is None:
            return alike and self.table is other.table
        return alike and np.array_equal(self.table, other.table)

    def fertilities(self, sentences: Sequence[TokenIds]) -> list[np.ndarray]:
        """Return the fertility of each token of sentences, without sinks."""
        if self.table is not None:
            return [self.table[np.asarray(ids, dtype=np.int64)] for ids in sentences]
        assert self.predictor is not None and isinstance(self.config, PredictedFertilityConfig)
        return [values + self.config.slack for values in self.predictor.predict(sentences)]

    @classmethod
    def constant(cls, config: ConstantFertilityConfig, vocab_size: int) -> "Budget":
        """Return a budget with the same fertility for all tokens of a vocabulary of the given size."""
        return cls(config, np.full(vocab_size, config.value, dtype=np.float32))

    def bounds(
        self,
        sentences: Sequence[TokenIds],
        user_bounds: Sequence[Fertilities | None] | None = None,
        num_sinks: int | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """Return upper and lower bounds on the attention of each token, including sinks.

        Args:
            sentences: Token ids, without sinks.
            user_bounds: User-specified bounds per sentence, which replace those of the budget.
            num_sinks: Number of sinks after each sentence. Default: 1 or 0, as in the config.

        Returns:
            The upper and the lower bounds of each sentence. The lower bounds are None if all are zero.
        """
        num_sinks = int(self.config.sink) if num_sinks is None else num_sinks
        sink_bounds = np.full(num_sinks, math.inf, dtype=np.float32)
        chosen: Sequence[Fertilities | None] = [None] * len(sentences) if user_bounds is None else user_bounds
        specified = [
            None if pairs is None else np.array(pairs, dtype=np.float32).reshape(-1, 2) for pairs in chosen
        ]
        # The predictor is called once, and only for sentences without complete user-specified bounds.
        open_rows = [
            row for row, pairs in enumerate(specified) if pairs is None or np.isnan(pairs[:, 1]).any()
        ]
        fertilities = dict(
            zip(open_rows, self.fertilities([sentences[row] for row in open_rows]), strict=True)
        )
        upper: list[np.ndarray] = []
        lower: list[np.ndarray] = []
        for row, pairs in enumerate(specified):
            if pairs is None:
                maximum = fertilities[row]
                minimum = np.zeros_like(maximum)
            else:
                minimum, maximum = pairs[:, 0], pairs[:, 1]
                # A user-specified minimum takes precedence over the fertility of the budget.
                if row in fertilities:
                    maximum = np.where(np.isnan(maximum), np.maximum(fertilities[row], minimum), maximum)
            upper.append(np.concatenate([maximum, sink_bounds]))
            lower.append(np.concatenate([minimum, np.zeros_like(sink_bounds)]))
        return upper, lower if any(minimum.any() for minimum in lower) else None

    def check(self, ids: TokenIds, user_bounds: Fertilities, num_sinks: int, where: str) -> None:
        """Check that the user-specified bounds of a sentence allow at least one target token.

        Each target token distributes one unit of attention, so the upper bounds must sum to at least 1.

        Args:
            ids: The token ids, without sinks.
            user_bounds: The bounds.
            num_sinks: Number of sinks after the sentence.
            where: File and line, for messages.

        Raises:
            DataError: if the upper bounds sum to less than 1.
        """
        (upper,), _ = self.bounds([ids], [user_bounds], num_sinks)
        # With a sink the sum is infinite, so that this never fails.
        if upper.sum() < 1 - FEASIBILITY_TOLERANCE:
            raise DataError(
                f"{where}: the fertilities sum to {upper.sum():g}, less than the one unit of attention that "
                "each target token needs, and the model has no sink; increase them"
            )

    def save(self, path: Path, vocabulary: Vocabulary) -> None:
        """Write the table as lines of token, tab, fertility; the file may be edited.

        Raises:
            DataError: if the file cannot be written.
        """
        assert self.table is not None
        lines = [f"{token}\t{value:g}\n" for token, value in zip(vocabulary.tokens, self.table, strict=True)]
        write_atomic(path, "".join(lines).encode())

    @classmethod
    def load(cls, path: Path, config: FertilityConfig, vocabulary: Vocabulary) -> "Budget":
        """Load a table that was written by `save`.

        Raises:
            DataError: if the file is missing or invalid. The message gives the line.
        """
        lines = read_bytes(path).decode().removesuffix("\n").split("\n")
        if len(lines) != len(vocabulary):
            raise DataError(
                f"{path}: {len(lines)} lines, expected {len(vocabulary)}: one per token of the vocabulary"
            )
        values = []
        for number, (line, token) in enumerate(zip(lines, vocabulary.tokens, strict=True), 1):
            # From the right: a token may contain a tab.
            word, _, value = line.rpartition("\t")
            if word != token:
                raise DataError(f"{path}, line {number}: token {word!r}, expected {token!r}")
            values.append(_number(value, f"{path}, line {number}"))
        return cls(config, np.array(values, dtype=np.float32))


def _number(text: str, where: str) -> float:
    """Parse a fertility, a number from 0 to inf."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise DataError(f"{where}: fertility {text!r}, expected a number from 0 to inf")
    return value


def token_fertilities(bounds: Bounds, word_ids: Sequence[int], where: str) -> tuple[tuple[float, float], ...]:
    """Return the minimum and the maximum of each token of a sentence.

    Args:
        bounds: One pair per token, or one per word, which then applies to each subword token of the word.
        word_ids: The word index of each token, from 0.
        where: File and line, for messages.

    Raises:
        DataError: if the number of pairs is neither the number of tokens nor the number of words.
    """
    tokens, words = len(word_ids), len(set(word_ids))
    if len(bounds) not in (tokens, words):
        parts = f"{tokens} tokens" if tokens == words else f"{words} words in {tokens} tokens"
        raise DataError(f"{where}: {len(bounds)} fertilities, but the sentence has {parts}")
    # If both numbers are equal, each word is one token and both readings agree.
    return tuple(bounds if len(bounds) == tokens else (bounds[word] for word in word_ids))


def parse_bounds(field: str, where: str) -> tuple[float, float]:
    """Parse a field of a line of fertilities: `MAX`, `MIN:MAX`, `MIN:`, or `-` (that of the model).

    Returns:
        The minimum, and the maximum, which is NaN if it is missing.

    Raises:
        DataError: if the field has another form. The message starts with `where`.
    """
    minimum, colon, maximum = field.rpartition(":")
    low = _number(minimum, where) if colon else 0.0
    if low == math.inf:
        raise DataError(f"{where}: {field!r} has an infinite minimum; the minimum must be finite")
    high = math.nan if maximum == "-" or (colon and not maximum) else _number(maximum, where)
    if low > high:
        raise DataError(f"{where}: {field!r} has a minimum of {low:g}, above its maximum of {high:g}")
    return low, high
