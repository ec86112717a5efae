"""Tests of REP and DROP: worked examples, the outputs printed in Malaviya et al. (2018), and invariants."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.coverage import (
    count_drops,
    count_repetitions,
    dropped_words,
    immediate_repetitions,
    repeated_ngrams,
    repetition_sigma,
)

PAPERS = Path(__file__).parents[3] / "shared" / "PAPERS.md"
SYSTEMS = ("softmax", "sparsemax", "csoftmax", "csparsemax")

# A small vocabulary makes repetitions frequent.
sentences = st.lists(st.sampled_from("abc"), max_size=8)
# One draw of bytes is faster than a draw for each position.
links = st.binary(max_size=10).map(lambda found: frozenset(divmod(one % 36, 6) for one in found))


@pytest.fixture(scope="module")
def appendix():
    """Return, for each sentence of Appendix B, the reference, and the output and sigma of each system.

    The published values were computed with the markup of the references (`<i>you` and `you` are different
    words), so the references are split without removing it.
    """
    if not PAPERS.is_file():
        pytest.skip(f"{PAPERS}, which contains the examples, does not exist")
    _, _, text = PAPERS.read_text(encoding="utf-8").partition("### Appendix B")
    text, _, _ = text.partition("\n## ")
    found = []
    for block in re.split(r"^\d+\. input: ", text, flags=re.MULTILINE)[1:]:
        reference = re.findall(r"- reference: (.*)", block)[0].split()
        outputs = re.findall(r"- (\w+): (.*?)  \(sigma (\d+)\)", block)
        found.append((reference, {name: (output.split(), int(sigma)) for name, output, sigma in outputs}))
    return found


def test_sigma_of_the_outputs_printed_in_appendix_b(appendix):
    assert len(appendix) == 8
    for reference, outputs in appendix:
        assert tuple(outputs) == SYSTEMS
        for output, sigma in outputs.values():
            assert repetition_sigma(output, reference) == sigma, output


@pytest.mark.parametrize(
    ("system", "expected"), [("softmax", 7.95), ("sparsemax", 5.30), ("csoftmax", 6.62), ("csparsemax", 2.65)]
)
def test_rep_of_appendix_b(appendix, system, expected):
    references = [reference for reference, _ in appendix]
    assert sum(map(len, references)) == 151
    counts = count_repetitions([outputs[system][0] for _, outputs in appendix], references)
    assert (counts.name, round(counts.corpus_score(), 2)) == ("REP", expected)


def test_doubled_words_have_weight_2():
    output, reference = "a a a b a a a b".split(), "a b".split()
    # (a a) occurs 4 times and (a b) twice, against once in the reference; "a a" is doubled 4 times.
    assert repetition_sigma(output, reference) == 4 + 1 + 2 * 4
    assert repeated_ngrams(output, reference) == {("a", "a"): 4, ("a", "b"): 1}
    assert immediate_repetitions(output, reference) == {"a": 4}


@given(sentences, sentences, st.data())
def test_doubling_a_word_never_lowers_sigma(output, reference, data):
    place = data.draw(st.integers(0, len(output)))
    # Repeat the word before `place`.
    doubled = output[:place] + output[max(place - 1, 0) : place] + output[place:]
    assert repetition_sigma(doubled, reference) >= repetition_sigma(output, reference)


def test_corpus_score_is_a_ratio_of_sums():
    outputs, references = [["a", "a"], [], ["b"]], [["a", "b"], ["c"], []]
    counts = count_repetitions(outputs, references)
    np.testing.assert_array_equal(counts.rows, [[2, 2], [0, 1], [0, 0]])
    assert counts.corpus_score() == pytest.approx(100 * 2 / 3)
    np.testing.assert_array_equal(counts.sentence_scores(), [100, 0, 0])


def test_drop_of_a_worked_example():
    references = [frozenset({(0, 0), (0, 1), (1, 2), (3, 3)}), frozenset({(0, 0)}), frozenset()]
    outputs = [frozenset({(0, 5), (2, 0)}), frozenset({(0, 0), (1, 1)}), frozenset({(4, 4)})]
    # Of the 3 + 1 + 0 source words linked to the references, words 1 and 3 have no link to the outputs.
    assert [dropped_words(r, m) for r, m in zip(references, outputs, strict=True)] == [[1, 3], [], []]
    counts = count_drops(references, outputs)
    assert (counts.name, counts.corpus_score()) == ("DROP", 50)
    np.testing.assert_allclose(counts.sentence_scores(), [100 * 2 / 3, 0, 0])


@given(st.lists(st.tuples(links.filter(bool), links), min_size=1, max_size=4))
def test_drop_is_0_if_all_words_are_covered_and_100_without_links(pairs):
    references, outputs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def drop(links):
        return count_drops(references, links).corpus_score()

    assert 0 <= drop(outputs) <= 100
    assert drop([r | m for r, m in pairs]) == 0
    assert drop([frozenset()] * len(pairs)) == 100
