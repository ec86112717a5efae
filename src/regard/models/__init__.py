"""Translation models; `regard.models.base` defines their common interface."""

from regard.models.base import Outcome, Prediction, TranslationModel
from regard.models.registry import ModelConfig, build_model

__all__ = ["ModelConfig", "Outcome", "Prediction", "TranslationModel", "build_model"]
