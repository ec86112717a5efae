"""Folders of small models, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small model by its name in `tiny`."""
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
