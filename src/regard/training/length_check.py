"""A check that the training text fits the maximum length of a model."""

from regard.data.dataset import PreparedData
from regard.errors import ConfigError
from regard.models.base import TranslationModel

__all__ = ["check_max_lengths"]


def check_max_lengths(model: TranslationModel, prepared: PreparedData) -> None:
    """Check that no sentence is longer than the number of learned positions of the model.

    Raises:
        ConfigError: if a sentence is too long; the message gives its file and line.
    """
    if model.max_length is None:
        return
    for split in ("train", "valid"):
        examples = prepared.split(split)
        num_sinks = len(prepared.text.sink_tokens)
        for side, lengths in zip(("source", "target"), examples.lengths, strict=True):
            row = int(lengths.argmax())
            tokens = int(lengths[row]) + (num_sinks if side == "source" else 0)
            if tokens > model.max_length:
                limit = model.max_length - (num_sinks if side == "source" else 1)
                remedy = f"set data.max_length = {limit}" if split == "train" else "shorten the sentence"
                raise ConfigError(
                    f"{examples.location(row)} has {tokens} {side} tokens"
                    f"{' with EOS' if side == 'target' else ''}, but the model has {model.max_length} "
                    f"learned positions: set model.position_encoding.max_length = {tokens} or more, or "
                    f"{remedy}"
                )
