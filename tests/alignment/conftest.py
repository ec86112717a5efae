"""Corpora that several aligner tests share."""

import pytest
from aligner_text import random_pairs

from regard.alignment.corpus import Corpus
from regard.extensions.phrasebook.corpus import generate_splits


@pytest.fixture
def small():
    return Corpus.from_tokens(random_pairs(0))


@pytest.fixture(scope="session")
def phrases():
    """Return sentence pairs of the phrasebook and their corpus."""
    pairs = generate_splits({"train": 3000}, seed=3)["train"]
    return pairs, Corpus.from_tokens((pair.source, pair.target) for pair in pairs)
