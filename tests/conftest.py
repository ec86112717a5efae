"""Shape checks on for the suite: jaxtyping's hook with beartype, before anything is imported.

Out stay `kernels` (the hook breaks compiled kernels), `training` (its tests pass doubles), and what has no
shapes in its signatures.
"""

import os

import pytest

from regard.processors import configure_threads

configure_threads()  # before anything imports torch, as the command line does

if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
    from jaxtyping import install_import_hook

    floors = ("functional", "layers", "attention", "data.batch", "metrics", "models", "decoding", "report")
    install_import_hook([f"regard.{floor}" for floor in floors], "beartype.beartype")

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def exact_int8() -> None:
    """Skips where the processor has no exact products of 8-bit integers, and int8 is refused."""
    from regard.errors import DeviceError
    from regard.kernels.int8 import check_int8

    try:
        check_int8(torch.device("cpu"))
    except DeviceError as error:
        pytest.skip(str(error))
