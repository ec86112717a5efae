"""Validation: how well a model predicts a split, by teacher forcing."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig
from regard.errors import InfeasibleBounds
from regard.models.base import TranslationModel
from regard.training.device import Precision, autocast
from regard.training.distributed import ALONE, Processes

__all__ = ["Examples", "Score", "evaluate", "located", "perplexity"]


@runtime_checkable
class Examples(Protocol):
    """What training needs of a split of prepared data."""

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The source and target lengths of every row, the target's end symbol included."""
        ...

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch: a function of seed and epoch alone."""
        ...

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """The rows as a batch."""
        ...


@runtime_checkable
class Located(Protocol):
    """Examples that come from lines of files."""

    def where(self, row: int) -> str:
        """The file and line a row comes from, for messages."""
        ...


@contextmanager
def located(data: Examples, batch: Batch) -> Iterator[None]:
    """Where a sentence's bounds leave less than one unit of attention: name its file and line.

    Raises:
        InfeasibleBounds: the same error, with these.
    """
    try:
        yield
    except InfeasibleBounds as error:
        if not error.row:
            raise
        # Beyond the text's own rows stand the translations that a sequence loss draws.
        if error.row[0] >= len(batch.rows):
            raise InfeasibleBounds(
                "a translation drawn for the sequence loss used up its sentence's fertilities; "
                "set data.fertility.sink = true",
                error.row,
            ) from None
        if not isinstance(data, Located):
            raise
        where = data.where(int(batch.rows[error.row[0]]))
        raise InfeasibleBounds(f"{where}: {error}", error.row) from None


@dataclass(frozen=True)
class Score:
    """How well a model predicts a split.

    Attributes:
        loss: The mean of -log p over target tokens, end symbols included, in nats, without smoothing.
        tokens: How many there are.
    """

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return perplexity(self.loss)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats a token, inf where that is too large a number."""
    return math.exp(loss) if loss < 700 else math.inf if not math.isnan(loss) else math.nan


@torch.inference_mode()
def evaluate(
    model: TranslationModel,
    data: Examples,
    batch: BatchConfig,
    precision: Precision = "float32",
    processes: Processes = ALONE,
) -> Score:
    """Score a split, its batches shared out over the processes.

    Args:
        model: Put into evaluation mode meanwhile.
        data: The split.
        batch: The size of the batches; the score does not depend on it.
        precision: What products are made in: a run's own while it trains.
        processes: Those of the run.
    """
    was_training = model.training
    model.eval()
    device = processes.device
    nll, tokens = 0.0, 0
    for rows in data.batches(batch, seed=0, epoch=0)[processes.rank :: processes.count]:
        examples = data.batch(rows)
        with located(data, examples), autocast(device, precision):
            outcome = model(examples.to(device), look="nothing")
        nll -= float(outcome.log_likelihood.sum(dtype=torch.float64))
        tokens += examples.target_tokens
    model.train(was_training)
    nll, total = processes.sum([nll, float(tokens)])
    return Score(nll / max(1.0, total), int(total))
