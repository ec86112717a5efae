"""Training losses: the model's own objectives, and the terms that a run adds to them."""

from regard.training.losses.base import LossConfig, LossTerm, TermBatch, register_loss

__all__ = ["LossConfig", "LossTerm", "TermBatch", "register_loss"]
