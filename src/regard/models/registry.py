"""The registry of models, each with its configuration class (`register_model`)."""

from pathlib import Path
from typing import Annotated, Any

from regard.config.registry import PartConfig, Registry, subclass_of
from regard.data.text import TextProcessor
from regard.errors import ConfigError
from regard.models.base import TrainableSystem, TranslationModel

__all__ = ["MODELS", "ModelConfig", "build_for_text", "build_model", "register_model"]

MODELS: Registry[type[TrainableSystem]] = Registry(
    "model",
    default="rnn",
    packages=["regard.models.rnn", "regard.models.conv", "regard.models.transformer"],
    contract=subclass_of(TrainableSystem),
)
register_model = MODELS.register

ModelConfig = Annotated[PartConfig, MODELS]


def build_for_text(
    config: ModelConfig, text: TextProcessor, model_dir: Path | None = None
) -> TranslationModel:
    """Build the model that a config describes, with the weights of its pre-trained parts.

    Args:
        config: The configuration of a registered neural model.
        text: The format of the source and the target side.
        model_dir: A model directory whose weights the caller loads afterward; the directories that the config
            names are not read. Default: None, which loads pre-trained weights from these directories.

    Raises:
        CheckpointError: if a directory is missing or broken.
        ConfigError: if parts do not fit together, or if two different vocabularies would share embeddings.
    """
    tokens = [side.vocabulary.tokens for side in (text.source, text.target)]
    # A stored model passed this check before its training.
    if model_dir is None and getattr(config, "tie_embeddings", "none") == "all" and tokens[0] != tokens[1]:
        raise ConfigError(
            "model.tie_embeddings = 'all' needs one vocabulary for both sides, but the source vocabulary "
            f"({len(tokens[0])} tokens) and the target vocabulary ({len(tokens[1])} tokens) differ: "
            "set data.shared_vocab = true"
        )
    return _model_class(config).build(config, text, model_dir)


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """Build a model without pre-trained parts. Parameters are initialized from PyTorch's global generator.

    Args:
        config: The configuration of a registered neural model.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.
    """
    return _model_class(config)(config, source_size, target_size)


def _model_class(config: ModelConfig) -> type[Any]:
    part = MODELS.part_of(config)
    assert part.is_neural, part
    return part
