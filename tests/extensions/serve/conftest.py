"""A fixture with small models, shared by all tests of the server."""

import pytest

from extensions.serve.served import engines as load
from regard.extensions.serve.engine import ModelServer


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> list[ModelServer]:
    """Return the engines of a plain model, a model with fertilities, and a model without attention."""
    return load(tmp_path_factory.mktemp("served"))
