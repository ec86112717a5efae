"""A fixture with small models, shared by all tests of the server."""

import pytest

from regard.server.engine import Engine
from server.served import engines as load


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> list[Engine]:
    """Return the engines of a plain model, a model with fertilities, and a model without attention."""
    return load(tmp_path_factory.mktemp("served"))
