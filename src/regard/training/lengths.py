"""Whether a model can read the sentences it is to be trained on."""

from regard.data.prepared import Prepared
from regard.errors import ConfigError
from regard.models.base import TranslationModel

__all__ = ["check_lengths"]


def check_lengths(model: TranslationModel, prepared: Prepared) -> None:
    """Refuse text that has sentences longer than a model can read.

    Raises:
        ConfigError: names the sentence.
    """
    if model.longest is None:
        return
    for split in ("train", "valid"):
        examples = prepared.split(split)
        sink = len(prepared.text.sink)
        for side, lengths in zip(("source", "target"), examples.lengths, strict=True):
            row = int(lengths.argmax())
            tokens = int(lengths[row]) + (sink if side == "source" else 0)
            if tokens > model.longest:
                most = model.longest - (sink if side == "source" else 1)
                remedy = f"data.max_length at the most {most}" if split == "train" else "a shorter sentence"
                raise ConfigError(
                    f"the model has {model.longest} learned positions: {examples.where(row)} has {tokens} "
                    f"{side} tokens{' with the end symbol' if side == 'target' else ''}; "
                    f"model.positions.length = {tokens} would do, or {remedy}"
                )
