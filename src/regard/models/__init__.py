"""Translation models; `regard.models.base` defines their common interface."""

from regard.models.base import ForwardOutput, Prediction, TranslationModel
from regard.models.registry import ModelConfig, build_model

__all__ = ["ForwardOutput", "ModelConfig", "Prediction", "TranslationModel", "build_model"]
