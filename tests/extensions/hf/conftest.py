"""A fixture that creates directories of small Hugging Face models, each once per session."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a model in `tiny` to its directory."""
    import tiny
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    made: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in made:
            torch.manual_seed(0)
            made[name] = tmp_path_factory.mktemp("models") / name
            getattr(tiny, name)(made[name])
        return made[name]

    return find
