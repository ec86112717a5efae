"""Tests of REP and DROP: worked examples, the outputs printed in Malaviya et al. (2018), and invariants."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, UsageError
from regard.metrics.base import paired_bootstrap
from regard.metrics.coverage import (
    count_drops,
    count_repetitions,
    drop,
    dropped_words,
    immediate_repetitions,
    rep,
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


@pytest.mark.parametrize(
    ("reference", "output", "sigma"), [("a b", "a a", 2), ("a b", "a a a", 6), ("a a b", "a a a", 3)]
)
def test_sigma_of_worked_examples(reference, output, sigma):
    assert repetition_sigma(output.split(), reference.split()) == sigma


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
    score = rep([outputs[system][0] for _, outputs in appendix], references)
    assert (score.name, round(score.score, 2)) == ("REP", expected)


def test_parameters_scale_their_terms():
    output, reference = "a a a b a a a b".split(), "a b".split()
    # (a a) occurs 4 times and (a b) twice, against once in the reference; "a a" is doubled 4 times.
    assert repetition_sigma(output, reference, lambda1=1.0, lambda2=0.0) == 4 + 1
    assert repetition_sigma(output, reference, lambda1=0.0, lambda2=1.0) == 4
    assert repetition_sigma(output, reference, n=3, lambda1=1.0, lambda2=0.0) == 2 + 2
    assert rep([output], [reference], n=4, lambda1=3.0, lambda2=0.5).score == 100 * (3 * 2 + 0.5 * 4) / 2
    assert repeated_ngrams(output, reference) == {("a", "a"): 4, ("a", "b"): 1}
    assert immediate_repetitions(output, reference) == {"a": 4}


@given(sentences, st.integers(1, 4))
def test_reference_has_sigma_zero(words, n):
    assert repetition_sigma(words, words, n) == 0


@given(sentences, sentences, st.data())
def test_doubling_a_word_never_lowers_sigma(output, reference, data):
    place = data.draw(st.integers(0, len(output)))
    # Repeat the word before `place`.
    doubled = output[:place] + output[max(place - 1, 0) : place] + output[place:]
    assert repetition_sigma(doubled, reference) >= repetition_sigma(output, reference)


@given(sentences, sentences, sentences, st.integers(1, 4))
def test_appending_words_never_lowers_sigma(output, more, reference, n):
    assert repetition_sigma(output + more, reference, n) >= repetition_sigma(output, reference, n)


@given(sentences, sentences)
def test_output_without_repetition_has_sigma_zero(output, reference):
    once = list(dict.fromkeys(output))
    assert repetition_sigma(once, reference) == 0


def test_corpus_score_is_a_ratio_of_sums():
    outputs, references = [["a", "a"], [], ["b"]], [["a", "b"], ["c"], []]
    counts = count_repetitions(outputs, references)
    np.testing.assert_array_equal(counts.rows, [[2, 2], [0, 1], [0, 0]])
    assert counts.corpus_score().score == pytest.approx(100 * 2 / 3)
    np.testing.assert_array_equal(counts.sentence_scores(), [100, 0, 0])


def test_drop_of_a_worked_example():
    references = [frozenset({(0, 0), (0, 1), (1, 2), (3, 3)}), frozenset({(0, 0)}), frozenset()]
    outputs = [frozenset({(0, 5), (2, 0)}), frozenset({(0, 0), (1, 1)}), frozenset({(4, 4)})]
    # Of the 3 + 1 + 0 source words linked to the references, words 1 and 3 have no link to the outputs.
    assert [dropped_words(r, m) for r, m in zip(references, outputs, strict=True)] == [[1, 3], [], []]
    score = drop(references, outputs)
    assert (score.name, score.score) == ("DROP", 50)
    np.testing.assert_allclose(count_drops(references, outputs).sentence_scores(), [100 * 2 / 3, 0, 0])


@given(st.lists(st.tuples(links, links), min_size=1, max_size=4))
def test_drop_is_between_0_and_100(pairs):
    references, outputs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert 0 <= drop(references, outputs).score <= 100


@given(st.lists(st.tuples(links, links), min_size=1, max_size=4))
def test_drop_is_zero_if_all_links_of_the_reference_are_covered(pairs):
    assert drop([r for r, _ in pairs], [r | m for r, m in pairs]).score == 0


@given(st.lists(links.filter(bool), min_size=1, max_size=4))
def test_output_without_links_has_drop_100(references):
    assert drop(references, [frozenset()] * len(references)).score == 100


def test_large_difference_is_significant():
    references = [frozenset({(0, 0), (1, 1)})] * 40
    full, half = count_drops(references, references), count_drops(references, [frozenset({(0, 0)})] * 40)
    result = paired_bootstrap(full.rows, half.rows, full.aggregate, resamples=100)
    assert (result.difference.value, result.difference.low) == (50, 50) and result.p_value < 0.05


def test_invalid_arguments_raise():
    with pytest.raises(DataError, match="reference 1 has 1 sentences but the hypotheses have 2"):
        rep([["a"], ["b"]], [["a"]])
    with pytest.raises(DataError, match="at least one sentence"):
        rep([], [])
    with pytest.raises(DataError, match="links of 1 references and of 2 outputs"):
        drop([frozenset()], [frozenset()] * 2)
    with pytest.raises(DataError, match="at least one sentence"):
        drop([], [])
    with pytest.raises(UsageError, match="n is 0"):
        rep([["a"]], [["a"]], n=0)
    with pytest.raises(UsageError, match="lambda2 is -1"):
        rep([["a"]], [["a"]], lambda2=-1.0)
