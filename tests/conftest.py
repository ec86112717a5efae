"""Shape checks on for the whole suite: jaxtyping's hook with beartype, before anything is imported."""

import os

import pytest

if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
    from jaxtyping import install_import_hook

    install_import_hook(
        ["regard.functional", "regard.layers", "regard.attention", "regard.models", "regard.decoding"],
        "beartype.beartype",
    )

import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
