"""Fixtures for the training tests: a tiny task and models that train in milliseconds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.config import from_dict
from regard.data.batch import Batch, BatchConfig, collate, make_batches
from regard.models.base import TranslationModel
from regard.models.registry import build_model
from regard.models.rnn.config import RnnConfig
from regard.text.vocabulary import EOS
from regard.training.config import TrainingConfig
from saved_models import small_rnn

VOCAB_SIZE = 12


@dataclass(frozen=True)
class Pairs:
    """A training set whose targets are the reversed source sentences."""

    sources: list[list[int]]

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        source = np.array([len(sentence) for sentence in self.sources])
        return source, source + 1

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        return make_batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: np.ndarray) -> Batch:
        sources = [self.sources[row] for row in rows]
        return collate(sources, [[*reversed(sentence), EOS] for sentence in sources], rows)

    def location(self, row: int) -> str:
        return f"line {row + 1}"


@pytest.fixture
def pairs() -> Callable[..., Pairs]:
    def make(count: int = 40, seed: int = 0) -> Pairs:
        random = np.random.default_rng(seed)
        return Pairs([random.integers(5, VOCAB_SIZE, random.integers(1, 6)).tolist() for _ in range(count)])

    return make


@pytest.fixture
def tiny_model() -> Callable[..., TranslationModel]:
    return make_model


def make_model(dropout: float = 0.0, width: int = 8) -> TranslationModel:
    torch.manual_seed(0)
    config = from_dict(RnnConfig, small_rnn(width) | {"dropout": dropout})
    return build_model(config, VOCAB_SIZE, VOCAB_SIZE)


@pytest.fixture
def settings() -> Callable[..., TrainingConfig]:
    """Return a function that makes a training configuration from nested dictionaries and small defaults."""

    def make(**changes: object) -> TrainingConfig:
        defaults = {
            "batch_size": 8,
            "lr_scheduler": {"kind": "constant"},
            "max_epochs": 0,
            "max_steps": 12,
            "logging": {"every_steps": 1},
        }
        return from_dict(TrainingConfig, {**defaults, **changes})

    return make


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "model"
