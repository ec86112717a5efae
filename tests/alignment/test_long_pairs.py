"""Pairs above the maximum length are not aligned, with one warning."""

import logging

import numpy as np
import pytest

from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.base import ALIGNERS, default_config
from regard.alignment.word_aligner import align_fertilities
from regard.text.links import MAX_LENGTH

PAIRS = [(["a", "b"], ["x", "y"]), (["b", "a"], ["y", "x"]), (["a"], ["x"]), (["b"], ["y"])] * 5
SETUP = TrainingSetup(num_threads=1)


def with_long_pairs(length: int) -> Corpus:
    """Return a text with three pairs of which a side is too long: both, the source, the target."""
    pairs = [*PAIRS[:3], (["a"] * length, ["x"] * length), *PAIRS[3:], (["a"] * length, ["x"])]
    return Corpus.from_tokens([*pairs, (["a"], ["x"] * length)])


@pytest.mark.parametrize("kind", ALIGNERS.names())
def test_long_pairs_get_no_links_and_others_those_of_the_text_without_them(kind, caplog):
    config, max_length = default_config(kind), ALIGNERS.get(kind).max_length
    corpus, plain = with_long_pairs(max_length + 1), Corpus.from_tokens(PAIRS)
    with caplog.at_level(logging.WARNING):
        aligner = train_both(corpus, config, SETUP)
        links = list(aligner.align(corpus, threads=1))
        posteriors = list(aligner.posteriors(corpus, threads=1))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"3 of 23 pairs have a side of more than {max_length} words")
    long = [3, 21, 22]
    assert all(links[row] == frozenset() for row in long)
    assert [posteriors[row].shape for row in long] == [
        (int(corpus.target.lengths[row]), int(corpus.source.lengths[row])) for row in long
    ]
    assert not any(posteriors[row].any() for row in long)
    others = [row for row in range(23) if row not in long]
    if kind != "bayes":  # its samples depend on the number of pairs
        reference = train_both(plain, config, SETUP)
        assert [links[row] for row in others] == list(reference.align(plain, threads=1))
        for row, expected in zip(others, reference.posteriors(plain, threads=1), strict=True):
            np.testing.assert_allclose(posteriors[row], expected, atol=1e-6)
    assert links[0] == {(0, 0), (1, 1)}


def test_pairs_of_the_maximum_length_are_aligned(caplog):
    words = [f"w{i}" for i in range(MAX_LENGTH)]
    corpus = Corpus.from_tokens([(words, words), *(([word], [word]) for word in words)])
    links = list(train_both(corpus, default_config("ibm1"), SETUP).align(corpus, threads=1))
    assert links[0] == {(i, i) for i in range(MAX_LENGTH)}
    assert not caplog.records


def test_fertilities_of_long_pairs_are_zero(caplog):
    corpus = with_long_pairs(MAX_LENGTH + 1)
    (counts,) = align_fertilities([corpus], SETUP, default_config("hmm"))
    by_pair = np.split(counts, corpus.source.offsets[1:-1])
    assert by_pair[0].tolist() == [1, 1]
    assert not any(by_pair[row].any() for row in (3, 21, 22))
    assert len(caplog.records) == 1
