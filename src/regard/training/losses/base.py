"""The contract of loss terms, which a run minimizes in addition to the model's own objective.

A run has a list of terms (`training.losses`). Before training, each term prepares its part of the data
(`LossTerm.prepare`) and checks the model (`check_model`). In each step, every term may add rows to the batch
(`prepare_batch`), and all rows are scored in one forward pass. The loss is then the model's own objective
(`regard.training.losses.objectives`) on the sentences of the batch, changed by each term in the order of the
list (`add`).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.data.batch import Batch, PaddedSequences
from regard.data.corpus import DataConfig
from regard.data.dataset import PreparedData
from regard.models.base import ForwardOutput, TranslationModel
from regard.types import Float, Int, Tensor

__all__ = ["JointBatch", "LossTerm", "ScoredBatch", "TermBatch"]


@dataclass(frozen=True)
class TermBatch:
    """The contribution of a term to a batch, before the forward pass.

    Attributes:
        rows: Further rows to score, or None; see `Batch.with_targets`.
        values: Any values that `LossTerm.add` needs.
    """

    rows: Batch | None = None
    values: Any = None


@dataclass(frozen=True)
class ScoredBatch:
    """A batch after the forward pass, as one term receives it.

    Attributes:
        batch: The sentences with their references.
        outcome: The result of teacher forcing for these sentences.
        own: The contribution of the term; the target sentences of its rows are padded to the width of all.
        own_outcome: The result of teacher forcing for the rows of the term; None if it added none.
    """

    batch: Batch
    outcome: ForwardOutput
    own: TermBatch
    own_outcome: ForwardOutput | None


class LossTerm:
    """Base class of all loss terms. A term is built once per run from its config.

    Attributes:
        output_attentions: Whether the term needs `ForwardOutput.cross_attentions`.
        resumable_options: Options of the config that may change when a run is resumed, such as paths whose
            content `identity` checks.
    """

    output_attentions: ClassVar[bool] = False
    resumable_options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Any) -> None:
        """Store the options. Subclasses annotate the class of their config."""
        self.config = config

    @property
    def supervised_attention(self) -> tuple[int, tuple[int, ...]] | None:
        """The layer and the heads that the term aligns with word links; None if it does not.

        Word alignments of the trained model come from this attention by default. No heads means all heads.
        """
        return None

    def prepare(self, prepared: PreparedData, config: DataConfig) -> None:
        """Prepare the term's part of the data, such as word links, or open the part that exists.

        Each process calls this method once. The first process calls it alone, before the model directory is
        created.

        Args:
            prepared: The prepared text.
            config: The configuration of the text.

        Raises:
            DataError: if a file is missing or malformed.
        """

    def identity(self) -> dict[str, Any]:
        """Return values that must not change when the run is resumed, by name, such as a checksum."""
        return {}

    def check_model(self, model: TranslationModel) -> None:
        """Check that the term can train a model.

        Raises:
            ConfigError: if it cannot.
        """

    def prepare_batch(
        self, model: TranslationModel, batch: Batch, rows: Int[Tensor, "B"], seed: int
    ) -> TermBatch:
        """Return the contribution of the term to a batch.

        Args:
            model: The model, in training mode.
            batch: The sentences with their references, on the device of the model.
            rows: The index of each sentence in the training split, on the CPU.
            seed: The random seed of this batch.
        """
        return TermBatch()

    def add(self, total: Float[Tensor, ""], scored: ScoredBatch) -> Float[Tensor, ""]:
        """Return the loss with this term, summed over the sentences of the batch, in nats.

        Args:
            total: The loss before this term.
            scored: The batch and the result of the forward pass.

        Raises:
            ConfigError: if the model does not support the term.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class JointBatch:
    """A batch with the rows of all terms, which one forward pass scores.

    Attributes:
        batch: The sentences with their references, followed by the rows of each term.
        num_sentences: The number of sentences.
        num_steps: The padded length of the references.
        terms: The contributions of the terms.
    """

    batch: Batch
    num_sentences: int
    num_steps: int
    terms: tuple[TermBatch, ...]

    @classmethod
    def build(cls, batch: Batch, terms: Sequence[TermBatch]) -> "JointBatch":
        """Append the rows of all terms to a batch."""
        added = [term.rows for term in terms if term.rows is not None]
        num_steps = 0 if batch.target is None else batch.target.tokens.shape[1]
        whole = Batch.concatenate([batch, *added]) if added else batch
        return cls(whole, len(batch), num_steps, tuple(terms))

    def sentences(self, outcome: ForwardOutput) -> ForwardOutput:
        """Return the outcome of the sentences, without the rows of terms."""
        if len(self.batch) == self.num_sentences:
            return outcome
        return _slice_outcome(outcome, slice(0, self.num_sentences), self.num_steps)

    def scored(self, batch: Batch, sentences: ForwardOutput, outcome: ForwardOutput) -> list[ScoredBatch]:
        """Return the scored batch of each term.

        Args:
            batch: The sentences.
            sentences: The outcome of the sentences.
            outcome: The outcome of all rows.
        """
        found, start = [], self.num_sentences
        for own in self.terms:
            if own.rows is None:
                found.append(ScoredBatch(batch, sentences, own, None))
                continue
            assert self.batch.target is not None
            rows = slice(start, start + len(own.rows))
            start = rows.stop
            target = PaddedSequences(self.batch.target.tokens[rows], self.batch.target.lengths[rows])
            padded = dataclasses.replace(own, rows=dataclasses.replace(own.rows, target=target))
            found.append(ScoredBatch(batch, sentences, padded, _slice_outcome(outcome, rows)))
        return found


def _slice_outcome(outcome: ForwardOutput, rows: slice, num_steps: int | None = None) -> ForwardOutput:
    """Return rows of an outcome, cut to the first time steps and without self-attention weights.

    Args:
        outcome: The result of teacher forcing.
        rows: The rows to select.
        num_steps: The number of time steps. Default: all.
    """
    found: dict[str, Any] = {"encoder_attentions": (), "decoder_attentions": ()}
    for field in dataclasses.fields(outcome):
        value = getattr(outcome, field.name)
        if field.name in found or value is None:
            continue
        if isinstance(value, tuple):
            found[field.name] = tuple(one[rows, :num_steps] for one in value)
        else:
            found[field.name] = value[rows, :num_steps]
    return dataclasses.replace(outcome, **found)
