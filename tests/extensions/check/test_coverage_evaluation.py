"""Labels of coverage errors and the measures of a detector, against enumeration and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from regard.errors import DataError, UsageError
from regard.extensions.check.base import PairScores
from regard.extensions.check.evaluation import (
    CoverageEvaluation,
    LineLabels,
    sentence_scores,
)
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence, marked_spans

TEXTS = [("Ein Hund", "A dog dog"), ("Zwei", "Two"), ("Drei Katzen", "Three"), ("Vier", "Four birds")]


def checked(scores: list[PairScores]) -> CoverageCheck:
    """Return a check of the first of `TEXTS` with given scores."""
    rows = zip(TEXTS, scores, strict=False)
    return CoverageCheck("own", tuple(CheckedSentence.of(i, *row) for i, row in enumerate(rows, 1)))


def omissions(*values: float) -> CoverageCheck:
    return checked([PairScores({"omission": value}) for value in values])


def test_equal_scores_are_in_random_order() -> None:
    found = sentence_scores(np.array([True] + [False] * 9), np.zeros(10), 10)
    assert found["auroc"].value == 0.5
    assert found["average_precision"].value == pytest.approx(0.1)
    # 10 % of ten sentences is one.
    assert found["precision_at_10"].value == found["recall_at_10"].value == pytest.approx(0.1)


@given(rows=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_measures_equal_those_of_scikit_learn(rows) -> None:
    labels, scores = np.array([one for one, _ in rows]), np.array([float(one) for _, one in rows])
    found = sentence_scores(labels, scores, 2)
    if not 0 < labels.sum() < len(labels):
        assert np.isnan(found["auroc"].value)
        evaluated = CoverageEvaluation("own", {"omission": (len(rows), 0)}, {"omission": found})
        assert evaluated.to_dict()["scores"][0]["value"] is None
        return
    assert found["auroc"].value == pytest.approx(metrics.roc_auc_score(labels, scores))
    expected = metrics.average_precision_score(labels, scores)
    assert found["average_precision"].value == pytest.approx(expected)


def test_interval_covers_the_spread_of_the_measure() -> None:
    generator = np.random.default_rng(1)
    labels = generator.random(400) < 0.3
    scores = generator.normal(size=400) + labels
    found = sentence_scores(labels, scores, 500)["auroc"]
    assert found.low < found.value < found.high
    # Hanley & McNeil (1982): the standard error of an AUROC A with n positives and m negatives.
    a, n, m = found.value, labels.sum(), (~labels).sum()
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    error = np.sqrt((a * (1 - a) + (n - 1) * (q1 - a * a) + (m - 1) * (q2 - a * a)) / (n * m))
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "labels: the file is empty"),
        ("\n", "labels: the file contains no labels"),
        ('{"line": 0}\n', "labels:1: not the labels of a line: .*line"),
        ('{"line": 1, "omision": true}\n', "labels:1: not the labels of a line: .*omision"),
        ('{"line": 1}\n{"line": 1, "addition": 1}\n', "labels:2: not the labels of a line: .*addition"),
        ('{"line": 9}\n', "labels: line 9 is labeled, but the text has 2 lines"),
        ('{"line": 1}\n{"line": 1}\n', "labels: line 1 is labeled twice"),
        ('{"line": 1, "repetition": true}\n', "no label is of an error that the detector 'own' finds"),
    ],
)  # fmt: skip
def test_wrong_labels_are_refused_with_their_line(tmp_path, text, message) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        omissions(0.1, 0.2).evaluate(path)


def test_evaluation_uses_labeled_lines_only() -> None:
    labels = [LineLabels(1, {"omission": True}), LineLabels(3, {"omission": False, "addition": True})]
    found = omissions(0.9, 0.99, 0.1, 0.0).evaluate(labels, num_bootstrap_samples=5)
    assert isinstance(found, CoverageEvaluation)
    assert found.counts == {"omission": (2, 1)}
    assert found.scores["omission"]["auroc"].value == 1.0
    assert found.to_dict()["scores"][0]["num_labeled"] == 2
    assert "addition" not in found.scores
    with pytest.raises(UsageError, match="at least 2"):
        omissions(0.9).evaluate(labels, num_bootstrap_samples=1)


def test_spans_join_neighbors_and_name_the_most_probable_word() -> None:
    words = np.array([0.6, 0.7])
    (one,) = checked([PairScores({"omission": 0.9}, {"omission": words})]).sentences
    assert marked_spans(one, "omission") == [(0, 8, True)]
    assert marked_spans(one, "omission", 0.65) == [(4, 8, True)]
    assert marked_spans(one, "omission", 0.8) == [(4, 8, False)]
    assert marked_spans(one, "omission", 0.95) == [] and marked_spans(one, "addition") == []


def test_summary_counts_sentences() -> None:
    found = omissions(0.9, 0.2, 0.6)
    assert found.summary() == "Of 3 sentences, 2 probably omit a word."
    assert found.summary(0.45).endswith("possibly omit a word.")
    assert found.summary(0.8) == "Of 3 sentences, 1 probably omits a word."
    assert CoverageCheck("own", ()).summary() == "There are no sentences."
    assert [one.line for one in found.worst(2)] == [1, 3]
    with pytest.raises(UsageError, match="the detector 'own' finds omission"):
        found.worst(error="addition")
