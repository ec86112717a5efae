"""Validation by greedy translation: BLEU or accuracy of the validation split during training."""

import dataclasses
from dataclasses import dataclass

import torch

from regard.data.dataset import PreparedData
from regard.decoding.config import GenerationConfig
from regard.models.base import TranslationModel
from regard.training.config import TrainingConfig
from regard.training.device import autocast

__all__ = ["TranslationMetric"]


@dataclass(frozen=True)
class TranslationMetric:
    """BLEU (sacreBLEU's default) or accuracy of a model's greedy translations of the validation text.

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
        """Translate the validation split and return the score, from 0 to 100."""
        from regard.decoding.lines import enumerate_lines
        from regard.decoding.translator import Translator
        from regard.metrics.transduction import accuracy
        from regard.metrics.translation import bleu

        sources, references = self.prepared.split("valid").raw_lines()
        search = dataclasses.replace(self.search, beam_size=1, num_return=1)
        translator = Translator(model, self.prepared.text, search)
        with autocast(self.device, self.training.precision):
            found = [result.text for result in translator.translate(enumerate_lines(sources))]
        metric = accuracy if self.training.validation.metric == "accuracy" else bleu
        to_plain_text = self.prepared.text.target.tokenizer.to_plain_text
        return metric(found, [[to_plain_text(line) for line in references]]).score
