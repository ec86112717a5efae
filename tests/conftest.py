"""Shape checks on for the suite: jaxtyping's hook with beartype, before anything is imported.

Out stay `kernels` (the hook breaks compiled kernels), `training` (its tests pass doubles), and what has no
shapes in its signatures.
"""

import os

import pytest

if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
    from jaxtyping import install_import_hook

    floors = ("functional", "layers", "attention", "data.batch", "metrics", "models", "decoding", "report")
    install_import_hook([f"regard.{floor}" for floor in floors], "beartype.beartype")

import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
