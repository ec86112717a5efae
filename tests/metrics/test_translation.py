"""Tests of BLEU, chrF and TER against sacreBLEU, of their counts per sentence, and of accuracy and edits."""

import logging

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, UsageError
from regard.metrics.base import METRICS, MetricInput, bootstrap, paired_bootstrap
from regard.metrics.translation import count_statistics, count_transduction, looks_tokenized, split_words

HYPOTHESES = ["The cat sat on the mat.", "A dog barks loudly at night!", "", "It's 5.3 km away, he said."]
REFERENCES = [
    "The cat is sitting on the mat.",
    "a dog barked loudly in the night!",
    "Nothing.",
    "It is 5.3 km away.",
]
SECOND = ["A cat sat on a mat.", "A dog barks at night.", "Empty.", "He said it's 5.3 km away."]


def score(metric, outputs, references, *options, **named):
    return count_statistics(metric, outputs, references, *options, **named)


def transduction(metric, outputs, references, lowercase=False):
    return count_transduction(metric, outputs, references, lowercase).corpus_score()


@pytest.mark.parametrize(
    ("metric", "theirs", "options"),
    [
        *(
            ("bleu", sacrebleu.BLEU, {"tokenize": tokenize, "lowercase": lowercase})
            for tokenize in ("13a", "none", "intl", "char")
            for lowercase in (False, True)
        ),
        ("chrf", sacrebleu.CHRF, {"lowercase": False}),
        ("chrf", sacrebleu.CHRF, {"lowercase": True}),
        ("ter", sacrebleu.TER, {}),
    ],
)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, SECOND]])
def test_scores_equal_sacrebleu(metric, theirs, options, references):
    scorer = theirs(**options)
    expected = scorer.corpus_score(HYPOTHESES, references)
    result = score(metric, HYPOTHESES, references, **options)
    assert result.corpus_score() == pytest.approx(expected.score, abs=1e-9)
    assert (result.name, result.signature) == (expected.name, str(scorer.get_signature()))


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
        result = METRICS.get("ter").count(MetricInput([output], [[reference]], tokenize))
        assert result.corpus_score() == pytest.approx(theirs.corpus_score([output], [[reference]]).score)
        assert result.signature == str(theirs.get_signature())


def test_one_changed_chinese_character_is_one_edit():
    assert score("ter", ["我昨天去学校。"], [["我今天去学校。"]], "zh").corpus_score() == pytest.approx(
        100 / 7
    )


def test_ter_rejects_the_tokenizer_of_characters():
    with pytest.raises(UsageError, match="--tokenize 'char': TER counts words"):
        score("ter", ["ab"], [["ac"]], "char")


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


@pytest.mark.parametrize(
    ("metric", "perfect", "empty"), [("bleu", 100, 0), ("chrf", 100, 0), ("ter", 0, 100)]
)
def test_perfect_and_empty_outputs_have_the_extreme_scores(metric, perfect, empty):
    assert score(metric, REFERENCES, [REFERENCES]).corpus_score() == pytest.approx(perfect)
    assert score(metric, ["", ""], [["a b", "c"]]).corpus_score() == empty


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_subset_of_counts_has_the_score_of_the_subset(metric):
    whole = count_statistics(metric, HYPOTHESES, [REFERENCES])
    part = count_statistics(metric, HYPOTHESES[:2], [REFERENCES[:2]])
    np.testing.assert_array_equal(whole.rows[:2], part.rows)
    assert whole.aggregate(whole.rows[:2].sum(0, keepdims=True))[0] == part.corpus_score()


def test_length_mismatch_raises():
    with pytest.raises(DataError, match="reference 2 has 1 sentences but the hypotheses have 2"):
        score("bleu", ["a", "b"], [["a", "b"], ["a"]])
    for outputs, references in (([], [[]]), (["a"], [])):
        with pytest.raises(DataError, match="at least one"):
            score("chrf", outputs, references)


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
        assert score("bleu", lines, [lines], tokenize="none").corpus_score() == pytest.approx(100)
    assert not caplog.records


words = st.text(st.sampled_from("abßä"), max_size=7)


def edit_distance(first: str, second: str) -> float:
    return transduction("edits", [first], [[second]])


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


@pytest.mark.parametrize(
    ("outputs", "references", "accuracy", "edits"),
    [
        (["Klöße", "Eier", "Eis", "Häuser"], [["Klöße", "Eiern", "Eis", "Hauses"]], 50, (0 + 1 + 0 + 2) / 4),
        (["stelle  in Abrede "], [["stelle in Abrede"]], 100, 0),  # white space is collapsed
        (["eis"], [["Eis"]], 0, 1),
        (["Klosse", "Eier"], [["Klöße", "Eiern"], ["Klosse", "Eiers"]], 50, 0.5),  # the nearest one counts
        ([""], [["Eis"]], 0, 3),
    ],
)
def test_accuracy_is_the_percentage_of_equal_outputs_and_edits_the_mean_distance(
    outputs, references, accuracy, edits
):
    assert transduction("accuracy", outputs, references) == accuracy
    assert transduction("edits", outputs, references) == pytest.approx(edits)


def test_case_is_ignored_on_request():
    counts = count_transduction("accuracy", ["eis"], [["Eis"]], lowercase=True)
    assert counts.corpus_score() == 100 and counts.signature == "nrefs:1|case:lc"


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
        transduction("accuracy", ["a", "b"], [["a"]])
    with pytest.raises(UsageError, match="accuracy, edits"):
        transduction("f1", ["a"], [["a"]])
