"""The contract and the registry of loss terms, which a run adds to the model's own objective.

A run has a list of terms (`training.losses`). Before training, each term prepares its part of the data
(`LossTerm.prepare`) and checks the model (`check_model`). In each step, every term may add rows to the batch
(`prepare_batch`), and all rows are scored in one forward pass. The loss is then the model's own objective
(`regard.training.losses.objectives`) on the sentences of the batch, changed by each term in the order of the
list (`add`).
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from regard.config.registry import PartConfig, Registry, subclass_of
from regard.data.batch import Batch, PaddedSequences
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData
from regard.models.base import ForwardOutput, TranslationModel
from regard.types import Float, Int, Tensor


@dataclass(frozen=True)
class TermBatch:
    """The part of one term in a batch.

    Attributes:
        rows: Further rows to score (`Batch.with_targets`), or None.
        values: Any values that `LossTerm.add` needs.
        outcome: The result of teacher forcing for the rows, whose target sentences are then padded to the
            width of the whole batch. None before the forward pass, and without rows.
    """

    rows: Batch | None = None
    values: Any = None
    outcome: ForwardOutput | None = None


class LossTerm(ABC):
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

    def prepare(self, prepared: PreparedData, config: DataConfig) -> None:  # noqa: B027  optional
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

    def check_model(self, model: TranslationModel) -> None:  # noqa: B027  optional
        """Check that the term can train a model.

        Raises:
            ConfigError: if it cannot.
        """

    def prepare_batch(
        self, model: TranslationModel, batch: Batch, rows: Int[Tensor, "B"], seed: int
    ) -> TermBatch:
        """Return the part of the term in a batch, before the forward pass.

        Args:
            model: The model, in training mode.
            batch: The sentences with their references, on the device of the model.
            rows: The index of each sentence in the training split, on the CPU.
            seed: The random seed of this batch.
        """
        return TermBatch()

    @abstractmethod
    def add(
        self, total: Float[Tensor, ""], batch: Batch, outcome: ForwardOutput, own: TermBatch
    ) -> Float[Tensor, ""]:
        """Return the loss with this term, summed over the sentences of the batch, in nats.

        Args:
            total: The loss before this term.
            batch: The sentences with their references.
            outcome: The result of teacher forcing for these sentences.
            own: The part that `prepare_batch` returned, with the outcome of its rows.

        Raises:
            ConfigError: if the model does not support the term.
        """


def join_rows(batch: Batch, parts: Sequence[TermBatch]) -> Batch:
    """Return the sentences of a batch, followed by the rows of each term."""
    added = [part.rows for part in parts if part.rows is not None]
    return Batch.concatenate([batch, *added]) if added else batch


def split_outcome(
    outcome: ForwardOutput, joint: Batch, batch: Batch, parts: Sequence[TermBatch]
) -> tuple[ForwardOutput, list[TermBatch]]:
    """Return the outcome of the sentences, and the parts of the terms with the outcomes of their rows.

    Args:
        outcome: The result of teacher forcing for all rows.
        joint: All rows; see `join_rows`.
        batch: The sentences.
        parts: The parts of the terms.
    """
    # Without further rows, `join_rows` returned the batch itself, and there is no row to cut off.
    if joint is batch:
        return outcome, [*parts]
    assert joint.target is not None and batch.target is not None
    start, new_parts = len(batch), []
    for part in parts:
        if part.rows is not None:
            rows = slice(start, start + len(part.rows))
            # The outcome has the width of the whole batch, so the targets need the same width.
            target = PaddedSequences(joint.target.tokens[rows], joint.target.lengths[rows])
            padded = dataclasses.replace(part.rows, target=target)
            part, start = TermBatch(padded, part.values, _slice_outcome(outcome, rows)), rows.stop
        new_parts.append(part)
    return _slice_outcome(outcome, slice(0, len(batch)), batch.target.tokens.shape[1]), new_parts


def _slice_outcome(outcome: ForwardOutput, rows: slice, num_steps: int | None = None) -> ForwardOutput:
    """Return rows of an outcome, cut to the first time steps and without self-attention weights."""
    changes: dict[str, Any] = {"encoder_attentions": (), "decoder_attentions": ()}
    for field in dataclasses.fields(outcome):
        value = getattr(outcome, field.name)
        if field.name in changes or value is None:
            continue
        if isinstance(value, tuple):
            changes[field.name] = tuple(tensor[rows, :num_steps] for tensor in value)
        else:
            changes[field.name] = value[rows, :num_steps]
    return dataclasses.replace(outcome, **changes)


LOSSES: Registry[type[LossTerm]] = Registry(
    "loss term", default="", packages=["regard.training.losses"], contract=subclass_of(LossTerm)
)
register_loss = LOSSES.register

LossConfig = Annotated[PartConfig, LOSSES]


def resumable_loss_options(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the options of a run's loss terms that may change when it is resumed.

    Args:
        config: The config of the run as plain dictionaries.

    Returns:
        Keys of the form `training.losses[0].links`.
    """
    losses = config.get("training", {}).get("losses", ())
    parts = ((number, LOSSES.get(loss.get("kind", ""))) for number, loss in enumerate(losses))
    return frozenset(
        f"training.losses[{number}].{name}"
        for number, part in parts
        if part is not None
        for name in part.resumable_options
    )
