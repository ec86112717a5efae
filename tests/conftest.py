"""Fixtures of the whole suite, and runtime checks of tensor shapes.

The import hook of jaxtyping, with beartype, must be installed before any checked package is imported. Three
kinds of packages are not checked: `kernels` (the hook breaks compiled kernels), `training` (its tests pass
doubles), and packages whose signatures contain no shapes.
"""

import os

import pytest

from regard.cpu_threads import configure_threads

# The OpenMP settings take effect only before torch is imported, so the command line does the same.
configure_threads()

if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
    from jaxtyping import install_import_hook

    packages = (
        "functional",
        "layers",
        "attention",
        "data.batch",
        "metrics",
        "models",
        "decoding",
        "plotting",
        "report",
    )
    install_import_hook([f"regard.{package}" for package in packages], "beartype.beartype")

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def exact_int8() -> None:
    """Skip the test if the processor has no exact 8-bit integer matrix multiplication and int8 is refused."""
    from regard.errors import DeviceError
    from regard.kernels.matmul import check_int8

    try:
        check_int8(torch.device("cpu"))
    except DeviceError as error:
        pytest.skip(str(error))
