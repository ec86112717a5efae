"""Validation by greedy translation: a metric of the validation split during training."""

import dataclasses
from dataclasses import dataclass

import torch

from regard.data.dataset import PreparedData
from regard.generation.config import GenerationConfig
from regard.metrics.base import METRICS, MetricInput
from regard.models.base import TranslationModel
from regard.training.config import TrainingConfig
from regard.training.device import autocast

__all__ = ["TranslationMetric"]


@dataclass(frozen=True)
class TranslationMetric:
    """A registered metric of a model's greedy translations of the validation text.

    Attributes:
        search: The search options; the beam size is replaced by 1.
        training: The training options, which give the precision and the metric.
        prepared: The prepared text.
        device: The device of the model.
    """

    search: GenerationConfig
    training: TrainingConfig
    prepared: PreparedData
    device: torch.device

    def __call__(self, model: TranslationModel) -> float:
        """Translate the validation split and return the score."""
        from regard.generation.lines import enumerate_lines
        from regard.generation.translator import Translator

        sources, references = self.prepared.split("valid").raw_lines()
        search = dataclasses.replace(self.search, beam_size=1, num_return=1)
        translator = Translator(model, self.prepared.text, search)
        with autocast(self.device, self.training.precision):
            found = [result.text for result in translator.translate(enumerate_lines(sources))]
        metric = METRICS.get(self.training.validation.metric)
        assert metric is not None
        to_plain_text = self.prepared.text.target.tokenizer.to_plain_text
        data = MetricInput(found, [[to_plain_text(line) for line in references]])
        return metric.count(data).corpus_score().score
