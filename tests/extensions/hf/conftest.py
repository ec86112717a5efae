"""Fixtures that create directories of small Hugging Face models, each once per session."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest


def model_dirs(module: str, seed: int, parent: Path) -> Callable[[str], Path]:
    """Return a function from the name of a model in a module to its directory."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()

    @cache
    def create(name: str) -> Path:
        torch.manual_seed(seed)
        getattr(import_module(module), name)(parent / name)
        return parent / name

    return create


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a model in `tiny` to its directory."""
    return model_dirs("tiny", 0, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def causal_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a model in `causal_models` to its directory."""
    return model_dirs("causal_models", 1, tmp_path_factory.mktemp("causal"))
