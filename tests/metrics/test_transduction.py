import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, UsageError
from regard.metrics import accuracy, bootstrap, edit_distance, edits, paired_bootstrap
from regard.metrics.transduction import count_transduction

words = st.text(st.sampled_from("abßä "), max_size=7)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        # The textbook examples of Wagner & Fischer's and Levenshtein's distance.
        ("kitten", "sitting", 3),
        ("saturday", "sunday", 3),
        ("intention", "execution", 5),
        ("Kloß", "Klöße", 2),
        ("", "abc", 3),
        ("abc", "", 3),
        ("", "", 0),
    ],
)
def test_distances_of_the_textbooks(first, second, distance):
    assert edit_distance(first, second) == distance


def brute(first: str, second: str) -> int:
    """The recursive definition."""
    if not first or not second:
        return len(first) + len(second)
    if first[0] == second[0]:
        return brute(first[1:], second[1:])
    return 1 + min(brute(first[1:], second), brute(first, second[1:]), brute(first[1:], second[1:]))


@given(first=words, second=words)
def test_the_distance_is_that_of_the_recursive_definition(first, second):
    assert edit_distance(first, second) == brute(first, second) == edit_distance(second, first)


@given(first=words, second=words, third=words)
def test_the_distance_is_a_metric(first, second, third):
    assert (edit_distance(first, second) == 0) == (first == second)
    assert edit_distance(first, third) <= edit_distance(first, second) + edit_distance(second, third)


def test_accuracy_is_the_share_of_lines_that_are_right_and_edits_the_mean_distance():
    said, wanted = ["Klöße", "Eier", "Eis", "Häuser"], ["Klöße", "Eiern", "Eis", "Hauses"]
    assert accuracy(said, [wanted]).score == 50.0
    assert edits(said, [wanted]).score == pytest.approx((0 + 1 + 0 + 2) / 4)
    assert accuracy(said, [wanted]).signature == "nrefs:1|case:mixed"


def test_white_space_is_one_space_and_case_counts_unless_told_otherwise():
    assert accuracy(["stelle  in Abrede "], [["stelle in Abrede"]]).score == 100.0
    assert accuracy(["eis"], [["Eis"]]).score == 0.0
    assert accuracy(["eis"], [["Eis"]], lowercase=True).score == 100.0
    assert edits(["eis"], [["Eis"]]).score == 1.0


def test_of_several_references_the_nearest_counts():
    said, truths = ["Klosse", "Eier"], [["Klöße", "Eiern"], ["Klosse", "Eiers"]]
    assert accuracy(said, truths).score == 50.0
    assert edits(said, truths).score == 0.5


def test_an_empty_output_is_wrong_by_the_whole_form():
    assert (accuracy([""], [["Eis"]]).score, edits([""], [["Eis"]]).score) == (0.0, 3.0)


def test_intervals_and_paired_tests_come_from_the_counts():
    wanted = [f"Form{i}" for i in range(200)]
    good = [form if i % 10 else "x" for i, form in enumerate(wanted)]
    bad = [form if i % 3 else "x" for i, form in enumerate(wanted)]
    counts = [count_transduction("accuracy", said, [wanted]) for said in (bad, good)]
    estimate = bootstrap(counts[1].rows, counts[1].aggregate, 500)
    assert estimate.value == 90.0
    # A share of 200: 1.96 times the binomial standard error of 2.1.
    assert estimate.low == pytest.approx(85.8, abs=1.5) and estimate.high == pytest.approx(94.2, abs=1.5)
    paired = paired_bootstrap(counts[0].rows, counts[1].rows, counts[0].aggregate, 500)
    assert paired.difference.value > 0 and paired.difference.low > 0 and paired.p_value < 0.05


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="reference 1 has 1 sentences but the hypotheses have 2"):
        accuracy(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="at least one sentence"):
        edits([], [[]])
    with pytest.raises(UsageError, match="accuracy, edits"):
        count_transduction("f1", ["a"], [["a"]])
