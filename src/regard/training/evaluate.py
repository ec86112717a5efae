"""Validation: the loss of a model on a split, and the location of errors in its data."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig
from regard.data.dataset import DatasetSplit
from regard.errors import InfeasibleBoundsError
from regard.models.base import Precision, TranslationModel
from regard.training.run_context import SINGLE_PROCESS, ProcessGroup, autocast


@runtime_checkable
class TrainingExamples(Protocol):
    """The interface of a data split for training."""

    lengths: tuple[np.ndarray, np.ndarray]
    """The source and target lengths of all rows in tokens; the target includes EOS."""

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch, as a function of the seed and the epoch alone."""
        ...

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """Return the batch of the given rows."""
        ...


@contextmanager
def add_error_location(data: TrainingExamples, batch: Batch) -> Iterator[None]:
    """Add the file and line of the sentence to an `InfeasibleBoundsError` raised in the context.

    The error means that the upper bounds of a sentence's attention weights sum to less than 1.

    Raises:
        InfeasibleBoundsError: the same error with the file and line.
    """
    try:
        yield
    except InfeasibleBoundsError as error:
        if not error.row:
            raise
        # The rows after those of the data are translations that a loss term generated.
        if error.row[0] >= len(batch.rows):
            raise InfeasibleBoundsError(
                "a translation generated for a loss term exhausted the fertilities of its sentence; "
                "set data.fertility.sink = true",
                error.row,
            ) from None
        if not isinstance(data, DatasetSplit):
            raise
        where = data.location(int(batch.rows[error.row[0]]))
        raise InfeasibleBoundsError(f"{where}: {error}", error.row) from None


@torch.inference_mode()
def validate(
    model: TranslationModel,
    data: TrainingExamples,
    batch_config: BatchConfig,
    precision: Precision = "float32",
    processes: ProcessGroup = SINGLE_PROCESS,
) -> float:
    """Return the loss of a model on a split, with the batches distributed over the processes.

    It is the mean negative log-likelihood per target token, EOS included, in nats, without label smoothing.

    Args:
        model: The model; it is in evaluation mode during the call.
        data: The split.
        batch_config: The batch size; the loss does not depend on it.
        precision: The precision of matrix multiplications.
        processes: The processes of the run.
    """
    was_training = model.training
    model.eval()
    device = processes.device
    nll, tokens = 0.0, 0
    # The seed and the epoch are fixed, so that all validations of a run use the same batches.
    for rows in data.batches(batch_config, seed=0, epoch=0)[processes.rank :: processes.world_size]:
        examples = data.batch(rows)
        with add_error_location(data, examples), autocast(device, precision):
            outcome = model(examples.to(device), output_attentions="nothing")
        # A sum in float32 would lose digits as the number of tokens grows.
        nll -= float(outcome.log_likelihood.sum(dtype=torch.float64))
        tokens += examples.target_tokens
    model.train(was_training)
    nll, total = processes.sum([nll, float(tokens)])
    # An empty split has the loss 0 instead of a division by zero.
    return nll / max(1.0, total)
