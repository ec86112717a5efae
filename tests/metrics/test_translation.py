"""The scores are sacreBLEU's own; what we add is that they come from counts kept sentence by sentence."""

import logging

import numpy as np
import pytest
import sacrebleu

from regard.errors import DataError, UsageError
from regard.metrics.translation import bleu, chrf, count, looks_tokenized, ter

HYPOTHESES = ["The cat sat on the mat.", "A dog barks loudly at night!", "", "It's 5.3 km away, he said."]
REFERENCES = [
    "The cat is sitting on the mat.",
    "a dog barked loudly in the night!",
    "Nothing.",
    "It is 5.3 km away.",
]
SECOND = ["A cat sat on a mat.", "A dog barks at night.", "Empty.", "He said it's 5.3 km away."]


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_equals_sacrebleu(tokenize, lowercase):
    golden = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    expected = golden.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, lowercase=lowercase)
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(golden.get_signature())
    assert score.name == "BLEU"


@pytest.mark.parametrize("lowercase", [False, True])
def test_chrf_equals_sacrebleu(lowercase):
    golden = sacrebleu.CHRF(lowercase=lowercase)
    expected = golden.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = chrf(HYPOTHESES, [REFERENCES], lowercase=lowercase)
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(golden.get_signature())
    assert score.name == "chrF2"


def test_ter_equals_sacrebleu():
    golden = sacrebleu.TER()
    expected = golden.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = ter(HYPOTHESES, [REFERENCES])
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(golden.get_signature())
    assert score.name == "TER"


@pytest.mark.parametrize(
    ("score", "golden"), [(bleu, sacrebleu.BLEU()), (chrf, sacrebleu.CHRF()), (ter, sacrebleu.TER())]
)
def test_several_references_equal_sacrebleu(score, golden):
    expected = golden.corpus_score(HYPOTHESES, [REFERENCES, SECOND]).score
    result = score(HYPOTHESES, [REFERENCES, SECOND])
    assert result.score == pytest.approx(expected, abs=1e-9)
    assert "nrefs:2" in result.signature


def test_a_perfect_output_has_bleu_100_and_ter_0():
    assert bleu(REFERENCES, [REFERENCES]).score == pytest.approx(100)
    assert chrf(REFERENCES, [REFERENCES]).score == pytest.approx(100)
    assert ter(REFERENCES, [REFERENCES]).score == 0


def test_empty_outputs_score_zero():
    assert bleu(["", ""], [["a b", "c"]]).score == 0
    assert chrf(["", ""], [["a b", "c"]]).score == 0
    assert ter(["", ""], [["a b", "c"]]).score == 100


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_counts_of_a_part_score_that_part(metric):
    whole = count(metric, HYPOTHESES, [REFERENCES])
    part = count(metric, HYPOTHESES[:2], [REFERENCES[:2]])
    np.testing.assert_array_equal(whole.rows[:2], part.rows)
    assert whole.aggregate(whole.rows[:2].sum(0, keepdims=True))[0] == part.total().score


def test_lengths_that_differ_are_refused():
    with pytest.raises(DataError, match="reference 2 has 1 sentences but the hypotheses have 2"):
        bleu(["a", "b"], [["a", "b"], ["a"]])
    with pytest.raises(DataError, match="at least one sentence"):
        chrf([], [[]])
    with pytest.raises(DataError, match="at least one"):
        ter(["a"], [])


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'bleurt'.*bleu, chrf, ter"):
        count("bleurt", ["a"], [["a"]])
    with pytest.raises(UsageError, match=r"'moses'.*13a, none"):
        count("bleu", ["a"], [["a"]], tokenize="moses")


def test_tokenized_text_is_noticed_and_scored_without_noise(caplog):
    lines = ["a tokenised line ."] * 100
    assert looks_tokenized(lines)
    assert not looks_tokenized(lines[:99])
    with caplog.at_level(logging.WARNING):
        assert bleu(lines, [lines], tokenize="none").score == pytest.approx(100)
    assert not caplog.records
