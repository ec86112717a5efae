"""Validation: the loss and perplexity of a model on a split, and metrics of its greedy translations."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig
from regard.data.dataset import DatasetSplit, PreparedData
from regard.errors import InfeasibleBoundsError
from regard.generation.config import GenerationConfig
from regard.metrics.base import METRICS, MetricInput
from regard.models.base import Precision, TranslationModel
from regard.training.config import TrainingConfig
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


@dataclass(frozen=True)
class TranslationMetric:
    """A registered metric of a model's greedy translations of the validation text.

    Attributes:
        search: The search options; the beam size is replaced by 1.
        training: The training options, which give the precision and the metric.
        prepared: The prepared text.
        source_prefix: The prefix of the validation corpus, as in training; None if it has none.
        device: The device of the model.
    """

    search: GenerationConfig
    training: TrainingConfig
    prepared: PreparedData
    device: torch.device
    source_prefix: str | None = None

    def __call__(self, model: TranslationModel) -> float:
        """Translate the validation split and return the score."""
        from regard.generation.lines import enumerate_lines
        from regard.generation.neural_translator import NeuralTranslator

        sources, references = self.prepared.split("valid").raw_lines()
        if self.source_prefix is not None:
            sources = [f"{self.source_prefix} {line}" for line in sources]
        # The score only ranks the steps of one run; greedy search keeps the validation short.
        search = dataclasses.replace(self.search, beam_size=1, num_return=1)
        translator = NeuralTranslator(model, self.prepared.text, search)
        with autocast(self.device, self.training.precision):
            translations = [result.text for result in translator.translate(enumerate_lines(sources))]
        metric = METRICS.get(self.training.validation.metric)
        assert metric is not None
        to_plain_text = self.prepared.text.target.tokenizer.to_plain_text
        data = MetricInput(translations, [[to_plain_text(line) for line in references]])
        return metric.count(data).corpus_score()
