"""The registry of models: to add one, add its config to `ModelConfig` and its class to `MODELS`.

Models with pre-trained parts are built from other model directories and copy the files that they need into
their own directory. They are registered in `PRETRAINED`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from regard.config import TaggedUnion
from regard.data.text import TextProcessor
from regard.errors import ConfigError
from regard.models.base import TranslationModel
from regard.models.conv import ConvModel
from regard.models.conv_config import ConvConfig
from regard.models.hf.building import build_hf
from regard.models.hf.config import HfConfig, PretrainedConfig
from regard.models.hf.encoder import build_pretrained
from regard.models.hf.folder import copy_configs
from regard.models.lstm import LstmModel
from regard.models.lstm_config import RnnConfig
from regard.models.transformer import TransformerModel
from regard.models.transformer_config import TransformerConfig

__all__ = ["MODELS", "PRETRAINED", "ModelConfig", "build_for_text", "build_model", "copy_pretrained_configs"]

ModelConfig = Annotated[
    RnnConfig | TransformerConfig | ConvConfig | HfConfig | PretrainedConfig, TaggedUnion("rnn")
]

MODELS: dict[type[Any], Callable[[Any, int, int], TranslationModel]] = {
    RnnConfig: LstmModel,
    TransformerConfig: TransformerModel,
    ConvConfig: ConvModel,
}

PRETRAINED: dict[type[Any], Callable[[Any, TextProcessor, Path | None], TranslationModel]] = {
    HfConfig: build_hf,
    PretrainedConfig: build_pretrained,
}


def build_for_text(
    config: ModelConfig, text: TextProcessor, model_dir: Path | None = None
) -> TranslationModel:
    """Build the model that a config describes, with the weights of its pre-trained parts.

    Args:
        config: A member of the union.
        text: The format of the source and the target side.
        model_dir: A model directory whose weights the caller loads afterward; the directories that the config
            names are not read. Default: None, which loads pre-trained weights from these directories.

    Raises:
        CheckpointError: if a directory is missing or broken.
        ConfigError: if parts do not fit together, or if two different vocabularies would share embeddings.
    """
    tokens = [side.vocabulary.tokens for side in (text.source, text.target)]
    if model_dir is None and getattr(config, "tie_embeddings", "none") == "all" and tokens[0] != tokens[1]:
        raise ConfigError(
            "model.tie_embeddings = 'all' needs one vocabulary for both sides, but the source vocabulary "
            f"({len(tokens[0])} tokens) and the target vocabulary ({len(tokens[1])} tokens) differ: "
            "set data.shared_vocab = true"
        )
    if type(config) in PRETRAINED:
        return PRETRAINED[type(config)](config, text, model_dir)
    return build_model(config, len(text.source.vocabulary), len(text.target.vocabulary))


def copy_pretrained_configs(config: ModelConfig, directory: Path) -> None:
    """Copy the files that `build_for_text` needs from other directories into a model directory.

    Raises:
        CheckpointError: if one of these directories is missing or broken.
        OSError: if a file cannot be written.
    """
    if isinstance(config, HfConfig | PretrainedConfig):
        copy_configs(config.folders, directory)


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """Build a model without pre-trained parts. Parameters are initialized from PyTorch's global generator.

    Args:
        config: A member of the union.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.
    """
    return MODELS[type(config)](config, source_size, target_size)
