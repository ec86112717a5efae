"""REP and DROP against worked examples, the outputs printed in Malaviya et al. (2018), and their laws."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, UsageError
from regard.metrics.coverage import (
    count_drops,
    count_repetitions,
    doubled_words,
    drop,
    dropped_words,
    rep,
    repeated_ngrams,
    repetition,
)
from regard.metrics.significance import paired_bootstrap

PAPERS = Path(__file__).parents[3] / "shared" / "PAPERS.md"
SYSTEMS = ("softmax", "sparsemax", "csoftmax", "csparsemax")

# Few words, so that they repeat.
sentences = st.lists(st.sampled_from("abc"), max_size=8)
links = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10)


@pytest.fixture(scope="module")
def appendix():
    """Of each sentence of Appendix B the reference, and the output and its sigma for each system.

    The figures given there were counted with the markup of the references in place (`<i>you` is another word
    than `you`), so the references are split as they stand.
    """
    if not PAPERS.is_file():
        pytest.skip(f"the examples are read from {PAPERS}, which is not there")
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
def test_worked_examples(reference, output, sigma):
    assert repetition(output.split(), reference.split()) == sigma


def test_sigma_of_the_outputs_printed_in_appendix_b(appendix):
    assert len(appendix) == 8
    for reference, outputs in appendix:
        assert tuple(outputs) == SYSTEMS
        for output, sigma in outputs.values():
            assert repetition(output, reference) == sigma, output


@pytest.mark.parametrize(
    ("system", "expected"), [("softmax", 7.95), ("sparsemax", 5.30), ("csoftmax", 6.62), ("csparsemax", 2.65)]
)
def test_rep_of_appendix_b(appendix, system, expected):
    references = [reference for reference, _ in appendix]
    assert sum(map(len, references)) == 151
    score = rep([outputs[system][0] for _, outputs in appendix], references)
    assert (score.name, round(score.score, 2)) == ("REP", expected)


def test_parameters_weigh_what_they_say():
    output, reference = "a a a b a a a b".split(), "a b".split()
    # (a a) 4 times and (a b) twice against once; a a doubled 4 times.
    assert repetition(output, reference, lambda1=1.0, lambda2=0.0) == 4 + 1
    assert repetition(output, reference, lambda1=0.0, lambda2=1.0) == 4
    assert repetition(output, reference, n=3, lambda1=1.0, lambda2=0.0) == 2 + 2
    assert rep([output], [reference], n=4, lambda1=3.0, lambda2=0.5).score == 100 * (3 * 2 + 0.5 * 4) / 2
    assert repeated_ngrams(output, reference) == {("a", "a"): 4, ("a", "b"): 1}
    assert doubled_words(output, reference) == {"a": 4}


@given(sentences, st.integers(1, 4))
def test_a_reference_repeats_nothing_of_itself(words, n):
    assert repetition(words, words, n) == 0


@given(sentences, sentences, st.data())
def test_doubling_a_word_never_lowers_sigma(output, reference, data):
    place = data.draw(st.integers(0, len(output)))
    doubled = output[:place] + output[max(place - 1, 0) : place] + output[place:]
    assert repetition(doubled, reference) >= repetition(output, reference)


@given(sentences, sentences, sentences, st.integers(1, 4))
def test_saying_more_at_the_end_never_lowers_sigma(output, more, reference, n):
    assert repetition(output + more, reference, n) >= repetition(output, reference, n)


@given(sentences, sentences)
def test_sigma_is_zero_without_repetition_in_the_output(output, reference):
    once = list(dict.fromkeys(output))
    assert repetition(once, reference) == 0


def test_corpora_divide_sums_by_sums():
    outputs, references = [["a", "a"], [], ["b"]], [["a", "b"], ["c"], []]
    counts = count_repetitions(outputs, references)
    np.testing.assert_array_equal(counts.rows, [[2, 2], [0, 1], [0, 0]])
    assert counts.total().score == pytest.approx(100 * 2 / 3)
    np.testing.assert_array_equal(counts.each(), [100, 0, 0])


def test_drop_by_hand():
    wanted = [frozenset({(0, 0), (0, 1), (1, 2), (3, 3)}), frozenset({(0, 0)}), frozenset()]
    said = [frozenset({(0, 5), (2, 0)}), frozenset({(0, 0), (1, 1)}), frozenset({(4, 4)})]
    # Source words 1 and 3 of the 3 + 1 + 0 linked to the references are lost.
    assert [dropped_words(r, m) for r, m in zip(wanted, said, strict=True)] == [[1, 3], [], []]
    score = drop(wanted, said)
    assert (score.name, score.score) == ("DROP", 50)
    np.testing.assert_allclose(count_drops(wanted, said).each(), [100 * 2 / 3, 0, 0])


@given(st.lists(st.tuples(links, links), min_size=1, max_size=4))
def test_drop_lies_between_0_and_100(pairs):
    wanted, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert 0 <= drop(wanted, said).score <= 100


@given(st.lists(st.tuples(links, links), min_size=1, max_size=4))
def test_nothing_is_dropped_where_the_output_covers_all_that_the_reference_does(pairs):
    assert drop([r for r, _ in pairs], [r | m for r, m in pairs]).score == 0


@given(st.lists(links.filter(bool), min_size=1, max_size=4))
def test_an_output_without_links_drops_everything(wanted):
    assert drop(wanted, [frozenset()] * len(wanted)).score == 100


def test_a_clear_difference_is_significant():
    wanted = [frozenset({(0, 0), (1, 1)})] * 40
    full, half = count_drops(wanted, wanted), count_drops(wanted, [frozenset({(0, 0)})] * 40)
    result = paired_bootstrap(full.rows, half.rows, full.aggregate, resamples=100)
    assert (result.difference.value, result.difference.low) == (50, 50) and result.p_value < 0.05


def test_what_does_not_fit_is_refused():
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
