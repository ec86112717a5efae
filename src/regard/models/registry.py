"""The union of all models: a new one adds its config here and its class to `MODELS`."""

from collections.abc import Callable
from typing import Annotated, Any

from regard.config import Kinds
from regard.models.base import TranslationModel
from regard.models.conv import ConvModel
from regard.models.conv_config import ConvConfig
from regard.models.lstm import LstmModel
from regard.models.lstm_config import LstmConfig
from regard.models.transformer import TransformerModel
from regard.models.transformer_config import TransformerConfig

__all__ = ["MODELS", "ModelConfig", "build_model"]

ModelConfig = Annotated[LstmConfig | TransformerConfig | ConvConfig, Kinds("lstm")]

MODELS: dict[type[Any], Callable[[Any, int, int], TranslationModel]] = {
    LstmConfig: LstmModel,
    TransformerConfig: TransformerModel,
    ConvConfig: ConvModel,
}


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """The model a config describes, with new parameters from PyTorch's global generator.

    Args:
        config: A member of the union.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.
    """
    return MODELS[type(config)](config, source_size, target_size)
