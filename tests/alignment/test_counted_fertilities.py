"""Tests of fertilities counted from alignment links."""

import numpy as np

from regard.alignment import Corpus
from regard.alignment.fertility import count_fertilities, max_fertilities


def test_fertility_is_the_number_of_linked_target_words() -> None:
    corpus = Corpus.from_tokens([(["im", "Haus"], ["in", "the", "house"]), (["Haus"], ["a", "house"])])
    links = np.array([0, 0, 1, -1, 0], dtype=np.int32)
    counts = count_fertilities(corpus, links)
    assert counts.tolist() == [2, 1, 1]
    largest = max_fertilities(corpus, counts)
    by_word = dict(zip(corpus.source.words.words, largest.tolist(), strict=True))
    assert by_word == {"im": 2.0, "Haus": 1.0}


def test_unaligned_word_has_fertility_one() -> None:
    corpus = Corpus.from_tokens([(["ja", "doch"], ["yes"])])
    largest = max_fertilities(corpus, count_fertilities(corpus, np.array([0], dtype=np.int32)))
    assert largest.tolist() == [1.0, 1.0]
