"""Quick training of coverage models, for tests that do not measure their quality on real text."""

from itertools import islice
from pathlib import Path

import pytest

from regard.extensions.check.base import WordPair
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import save_coverage_model
from regard.extensions.phrasebook.corpus import generate
from shared_files import shared_directory


def train_quickly(patch: pytest.MonkeyPatch, examples: int = 600) -> None:
    """Let the training use this number of examples, or one per held-out pair."""
    patch.setattr("regard.extensions.check.model._MIN_EXAMPLES", examples)
    patch.setattr("regard.extensions.check.model._ROUNDS", 1)


def phrasebook_model(factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a coverage model of 800 pairs of the phrasebook, which is trained once."""

    def build(directory: Path) -> None:
        pairs = [WordPair(tuple(one.source), tuple(one.target)) for one in islice(generate(1), 800)]
        with pytest.MonkeyPatch.context() as patch:
            train_quickly(patch, 800)
            save_coverage_model(ErrorModel.train(pairs, num_threads=1), directory)

    return shared_directory(factory, "phrasebook-coverage", build)
