"""Fixtures for the data tests."""

import pytest
from made_corpora import corpus, sentences


@pytest.fixture
def data(tmp_path):
    """Return a data configuration with 60 training pairs and 7 validation pairs."""
    return {
        "cache_dir": str(tmp_path / "prepared"),
        "train": [corpus(tmp_path, "train", *sentences(60))],
        "valid": corpus(tmp_path, "valid", *sentences(7, 1)),
    }
