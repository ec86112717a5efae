"""A fixture with small models, shared by all tests of the server."""

import pytest

from extensions.serve.served import save_model
from regard.extensions.serve.engine import ModelServer, load_engines


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> list[ModelServer]:
    """Return the engines of a plain model, a model with fertilities, and a model without attention."""
    directory = tmp_path_factory.mktemp("served")
    models = [
        save_model(directory / "plain"),
        save_model(directory / "bounded", seed=1, fertility=2.0),
        save_model(directory / "blind", attention={"kind": "none"}),
    ]
    return load_engines(models, "cpu")
