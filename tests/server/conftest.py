"""One set of small models for all tests of the server."""

import pytest

from regard.server.engine import Engine
from server.served import engines as load


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> list[Engine]:
    """A plain model, one with fertilities, one without attention."""
    return load(tmp_path_factory.mktemp("served"))
