"""Models that the tests of the Python API share."""

import pytest

import regard
from saved_models import save_model


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return [save_model(root / "first"), save_model(root / "second", seed=1)]


@pytest.fixture(scope="session")
def model(directories):
    return regard.load(directories[0], device="cpu")


@pytest.fixture(scope="session")
def bounded(tmp_path_factory):
    return regard.load(save_model(tmp_path_factory.mktemp("bounded") / "m", fertility=2.0), device="cpu")
