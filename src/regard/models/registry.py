"""The union of all models: a new one adds its config here and its class to `MODELS`.

Models with pre-trained parts are made of folders beside their config, and keep what they need of these in
their own folder: they stand in `PRETRAINED`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from regard.config import Kinds
from regard.data.text import TextPair
from regard.errors import ConfigError
from regard.models.base import TranslationModel
from regard.models.conv import ConvModel
from regard.models.conv_config import ConvConfig
from regard.models.hf.building import build_hf
from regard.models.hf.config import HfConfig, PretrainedConfig
from regard.models.hf.encoder import build_pretrained
from regard.models.hf.folder import keep_folders
from regard.models.lstm import LstmModel
from regard.models.lstm_config import LstmConfig
from regard.models.transformer import TransformerModel
from regard.models.transformer_config import TransformerConfig

__all__ = ["MODELS", "PRETRAINED", "ModelConfig", "assemble", "build_model", "keep_parts"]

ModelConfig = Annotated[
    LstmConfig | TransformerConfig | ConvConfig | HfConfig | PretrainedConfig, Kinds("lstm")
]

MODELS: dict[type[Any], Callable[[Any, int, int], TranslationModel]] = {
    LstmConfig: LstmModel,
    TransformerConfig: TransformerModel,
    ConvConfig: ConvModel,
}

PRETRAINED: dict[type[Any], Callable[[Any, TextPair, Path | None], TranslationModel]] = {
    HfConfig: build_hf,
    PretrainedConfig: build_pretrained,
}


def assemble(config: ModelConfig, text: TextPair, kept: Path | None = None) -> TranslationModel:
    """The model a config describes, for a text: with new parameters, and those of its pre-trained parts.

    Args:
        config: A member of the union.
        text: How its two sides are written.
        kept: A model folder whose weights are put into the model later: the folders that the config names
            are not looked for. None: pre-trained weights are read from these.

    Raises:
        CheckpointError: if a folder is missing or broken.
        ConfigError: if parts do not fit together, or embeddings are to be shared by two vocabularies.
    """
    words = [side.vocabulary.tokens for side in (text.source, text.target)]
    if kept is None and getattr(config, "tied", "none") == "all" and words[0] != words[1]:
        raise ConfigError(
            "model.tied = 'all' needs one vocabulary for both sides, and these are two, "
            f"of {len(words[0])} and {len(words[1])} words: set data.joint_vocabulary = true"
        )
    if type(config) in PRETRAINED:
        return PRETRAINED[type(config)](config, text, kept)
    return build_model(config, len(text.source.vocabulary), len(text.target.vocabulary))


def keep_parts(config: ModelConfig, folder: Path) -> None:
    """Put into a model folder what `assemble` needs of other folders.

    Raises:
        CheckpointError: if one of these is missing or broken.
        OSError: if it cannot be written.
    """
    if isinstance(config, HfConfig | PretrainedConfig):
        keep_folders(config.folders, folder)


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """The model a config describes, if all of it is new, with parameters from PyTorch's global generator.

    Args:
        config: A member of the union.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.
    """
    return MODELS[type(config)](config, source_size, target_size)
