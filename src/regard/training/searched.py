"""What a model's own translations of the validation text score while it is trained."""

import dataclasses
from dataclasses import dataclass

import torch

from regard.data.prepared import Prepared
from regard.decoding.config import SearchConfig
from regard.models.base import TranslationModel
from regard.training.config import TrainingConfig
from regard.training.device import autocast

__all__ = ["Searched"]


@dataclass(frozen=True)
class Searched:
    """BLEU (sacreBLEU's default) or accuracy of a model's greedy translations of the validation text.

    Attributes:
        search: How the model translates, but for the beam.
        training: Its precision, and which of the two.
        prepared: The text.
        device: Where the model is.
    """

    search: SearchConfig
    training: TrainingConfig
    prepared: Prepared
    device: torch.device

    def __call__(self, model: TranslationModel) -> float:
        """The score, out of 100."""
        from regard.decoding.translate import Translator, number_lines
        from regard.metrics.transduction import accuracy
        from regard.metrics.translation import bleu

        sources, references = self.prepared.split("valid").raw()
        search = dataclasses.replace(self.search, beam=1, nbest=1)
        translator = Translator(model, self.prepared.text, search)
        with autocast(self.device, self.training.precision):
            found = [result.text for result in translator.translate(number_lines(sources))]
        measure = accuracy if self.training.validation.metric == "accuracy" else bleu
        shown = self.prepared.text.target.tokenizer.shown
        return measure(found, [[shown(line) for line in references]]).score
