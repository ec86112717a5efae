"""Tests of BLEU, chrF and TER against sacreBLEU, of their counts per sentence, and of accuracy and edits."""

import logging

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, UsageError
from regard.metrics import accuracy, bootstrap, edits, paired_bootstrap
from regard.metrics.base import METRICS, MetricInput
from regard.metrics.translation import (
    bleu,
    chrf,
    count_statistics,
    count_transduction,
    looks_tokenized,
    split_words,
    ter,
)

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


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "zh", "ja-mecab", "ko-mecab"])
def test_tokenizer_of_ter_selects_the_options_of_sacrebleu(tokenize):
    outputs = [
        "我昨天去了学校，然后回家。",
        "私は昨日、学校に行った。",
        "나는 어제 학교에 갔다.",
        "He has 3.5 dogs, Tom's.",
    ]
    references = [
        "我今天去了学校，然后回家。",
        "私は今日、学校に行った。",
        "나는 오늘 학교에 갔다.",
        "He had 3.5 dogs, Tom's.",
    ]
    asian = tokenize not in ("13a", "none", "intl")
    theirs = sacrebleu.TER(normalized=asian, asian_support=asian)
    for output, reference in zip(outputs, references, strict=True):
        data = MetricInput([output], [[reference]], tokenize)
        counts = METRICS.get("ter").count(data)
        score = ter([output], [[reference]], tokenize)
        assert score == counts.corpus_score()
        assert score.score == pytest.approx(theirs.corpus_score([output], [[reference]]).score)
        assert score.signature == str(theirs.get_signature())


def test_one_changed_chinese_character_is_one_edit():
    assert ter(["我昨天去学校。"], [["我今天去学校。"]], "zh").score == pytest.approx(100 / 7)


def test_ter_rejects_the_tokenizer_of_characters():
    with pytest.raises(UsageError, match="--tokenize 'char': TER counts words"):
        ter(["ab"], [["ac"]], "char")


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


words = st.text(st.sampled_from("abßä"), max_size=7)


def edit_distance(first: str, second: str) -> float:
    return edits([first], [[second]]).score


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        # Textbook examples of the edit distance of Levenshtein and of Wagner & Fischer.
        ("kitten", "sitting", 3),
        ("saturday", "sunday", 3),
        ("intention", "execution", 5),
        ("Kloß", "Klöße", 2),
        ("", "abc", 3),
        ("abc", "", 3),
        ("", "", 0),
    ],
)
def test_edit_distance_of_textbook_examples(first, second, distance):
    assert edit_distance(first, second) == distance


def naive(first: str, second: str) -> int:
    """Compute the edit distance by its recursive definition."""
    if not first or not second:
        return len(first) + len(second)
    if first[0] == second[0]:
        return naive(first[1:], second[1:])
    return 1 + min(naive(first[1:], second), naive(first, second[1:]), naive(first[1:], second[1:]))


@given(first=words, second=words)
def test_distance_matches_the_recursive_definition(first, second):
    assert edit_distance(first, second) == naive(first, second) == edit_distance(second, first)


@given(first=words, second=words, third=words)
def test_distance_is_a_metric(first, second, third):
    assert (edit_distance(first, second) == 0) == (first == second)
    assert edit_distance(first, third) <= edit_distance(first, second) + edit_distance(second, third)


def test_accuracy_is_the_percentage_of_exact_matches_and_edits_the_mean_distance():
    outputs, references = ["Klöße", "Eier", "Eis", "Häuser"], ["Klöße", "Eiern", "Eis", "Hauses"]
    assert accuracy(outputs, [references]).score == 50.0
    assert edits(outputs, [references]).score == pytest.approx((0 + 1 + 0 + 2) / 4)
    assert accuracy(outputs, [references]).signature == "nrefs:1|case:mixed"


def test_whitespace_is_collapsed_and_case_matters_by_default():
    assert accuracy(["stelle  in Abrede "], [["stelle in Abrede"]]).score == 100.0
    assert accuracy(["eis"], [["Eis"]]).score == 0.0
    assert accuracy(["eis"], [["Eis"]], lowercase=True).score == 100.0
    assert edits(["eis"], [["Eis"]]).score == 1.0


def test_nearest_of_several_references_counts():
    outputs, references = ["Klosse", "Eier"], [["Klöße", "Eiern"], ["Klosse", "Eiers"]]
    assert accuracy(outputs, references).score == 50.0
    assert edits(outputs, references).score == 0.5


def test_empty_output_has_the_length_of_the_reference_as_distance():
    assert (accuracy([""], [["Eis"]]).score, edits([""], [["Eis"]]).score) == (0.0, 3.0)


def test_bootstrap_accepts_the_counts():
    references = [f"Form{i}" for i in range(200)]
    good = [form if i % 10 else "x" for i, form in enumerate(references)]
    bad = [form if i % 3 else "x" for i, form in enumerate(references)]
    counts = [count_transduction("accuracy", outputs, [references]) for outputs in (bad, good)]
    estimate = bootstrap(counts[1].rows, counts[1].aggregate, 500)
    assert estimate.value == 90.0
    # A proportion of 200: the interval is 1.96 times the binomial standard error of 2.1.
    assert estimate.low == pytest.approx(85.8, abs=1.5) and estimate.high == pytest.approx(94.2, abs=1.5)
    paired = paired_bootstrap(counts[0].rows, counts[1].rows, counts[0].aggregate, 500)
    assert paired.difference.value > 0 and paired.difference.low > 0 and paired.p_value < 0.05


def test_invalid_arguments_raise():
    with pytest.raises(DataError, match="reference 1 has 1 sentences but the hypotheses have 2"):
        accuracy(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="at least one sentence"):
        edits([], [[]])
    with pytest.raises(UsageError, match="accuracy, edits"):
        count_transduction("f1", ["a"], [["a"]])
