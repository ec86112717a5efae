"""Shape checks on for the whole suite: jaxtyping's hook with beartype, before anything is imported."""

import os

import pytest

OTHERS = ("data", "metrics", "report")

if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
    from jaxtyping import install_import_hook

    install_import_hook(
        [f"regard.{name}" for name in ("functional", "layers", "attention", "models", "decoding", *OTHERS)],
        "beartype.beartype",
    )

import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
