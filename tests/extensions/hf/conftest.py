"""Fixtures that create directories of small Hugging Face models, each once per session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


def model_dirs(save: Callable[[str, Path], Any], seed: int, parent: Path) -> Callable[[str], Path]:
    """Return a function from the name of a model to its directory, which `save` writes."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()

    @cache
    def create(name: str) -> Path:
        torch.manual_seed(seed)
        save(name, parent / name)
        return parent / name

    return create


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a model in `tiny` to its directory."""
    import tiny

    return model_dirs(lambda name, path: getattr(tiny, name)(path), 0, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def causal_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a family in `causal_models` to the directory of a model."""
    import causal_models

    return model_dirs(causal_models.save, 1, tmp_path_factory.mktemp("causal"))
