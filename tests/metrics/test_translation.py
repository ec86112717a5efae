"""Tests of BLEU, chrF and TER against sacreBLEU, and of the counts per sentence they are computed from."""

import logging

import numpy as np
import pytest
import sacrebleu

from regard.errors import DataError, UsageError
from regard.metrics.translation import bleu, chrf, count_statistics, looks_tokenized, split_words, ter

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
    theirs = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, lowercase=lowercase)
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(theirs.get_signature())
    assert score.name == "BLEU"


@pytest.mark.parametrize("lowercase", [False, True])
def test_chrf_equals_sacrebleu(lowercase):
    theirs = sacrebleu.CHRF(lowercase=lowercase)
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = chrf(HYPOTHESES, [REFERENCES], lowercase=lowercase)
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(theirs.get_signature())
    assert score.name == "chrF2"


def test_ter_equals_sacrebleu():
    theirs = sacrebleu.TER()
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = ter(HYPOTHESES, [REFERENCES])
    assert score.score == pytest.approx(expected, abs=1e-9)
    assert score.signature == str(theirs.get_signature())
    assert score.name == "TER"


@pytest.mark.parametrize(
    ("score", "theirs"), [(bleu, sacrebleu.BLEU()), (chrf, sacrebleu.CHRF()), (ter, sacrebleu.TER())]
)
def test_several_references_equal_sacrebleu(score, theirs):
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES, SECOND]).score
    result = score(HYPOTHESES, [REFERENCES, SECOND])
    assert result.score == pytest.approx(expected, abs=1e-9)
    assert "nrefs:2" in result.signature


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char"])
def test_split_words_gives_the_words_that_sacrebleu_scores(tokenize):
    theirs = sacrebleu.BLEU(tokenize=tokenize, force=True)
    for line, words in zip(HYPOTHESES, split_words(HYPOTHESES, tokenize), strict=True):
        assert len(words) == theirs.corpus_score([line], [[line]]).sys_len


def test_sacrebleu_has_the_private_methods_that_give_counts_of_sentences():
    # Not public, and therefore limited by the version in pyproject.toml: its public results have no counts.
    for theirs in (sacrebleu.BLEU(force=True), sacrebleu.CHRF(), sacrebleu.TER()):
        counts = theirs._extract_corpus_statistics(HYPOTHESES, [REFERENCES])
        total = [sum(column) for column in zip(*counts, strict=True)]
        expected = theirs.corpus_score(HYPOTHESES, [REFERENCES])
        assert theirs._compute_score_from_stats(total).score == pytest.approx(expected.score)
    assert sacrebleu.BLEU()._preprocess_segment("A dog.").split() == ["A", "dog", "."]


def test_perfect_output_has_bleu_100_and_ter_0():
    assert bleu(REFERENCES, [REFERENCES]).score == pytest.approx(100)
    assert chrf(REFERENCES, [REFERENCES]).score == pytest.approx(100)
    assert ter(REFERENCES, [REFERENCES]).score == 0


def test_empty_outputs_score_zero():
    assert bleu(["", ""], [["a b", "c"]]).score == 0
    assert chrf(["", ""], [["a b", "c"]]).score == 0
    assert ter(["", ""], [["a b", "c"]]).score == 100


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_subset_of_counts_has_the_score_of_the_subset(metric):
    whole = count_statistics(metric, HYPOTHESES, [REFERENCES])
    part = count_statistics(metric, HYPOTHESES[:2], [REFERENCES[:2]])
    np.testing.assert_array_equal(whole.rows[:2], part.rows)
    assert whole.aggregate(whole.rows[:2].sum(0, keepdims=True))[0] == part.corpus_score().score


def test_length_mismatch_raises():
    with pytest.raises(DataError, match="reference 2 has 1 sentences but the hypotheses have 2"):
        bleu(["a", "b"], [["a", "b"], ["a"]])
    with pytest.raises(DataError, match="at least one sentence"):
        chrf([], [[]])
    with pytest.raises(DataError, match="at least one"):
        ter(["a"], [])


def test_unknown_names_raise_with_the_valid_ones():
    with pytest.raises(UsageError, match=r"'bleurt'.*bleu, chrf, ter"):
        count_statistics("bleurt", ["a"], [["a"]])
    with pytest.raises(UsageError, match=r"'moses'.*13a, none"):
        count_statistics("bleu", ["a"], [["a"]], tokenize="moses")


def test_tokenized_text_is_detected_and_scored_without_warning(caplog):
    lines = ["a tokenized line ."] * 100
    assert looks_tokenized(lines)
    assert not looks_tokenized(lines[:99])
    with caplog.at_level(logging.WARNING):
        assert bleu(lines, [lines], tokenize="none").score == pytest.approx(100)
    assert not caplog.records
