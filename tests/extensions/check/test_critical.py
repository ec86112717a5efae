"""Numbers, names, negations and markup without a counterpart."""

import pytest

import regard
from regard.extensions.check.base import WordPair, split_pairs
from regard.extensions.check.critical import CriticalWords, markup_mismatches
from regard.extensions.check.findings import find_errors

SENTENCES = [
    ("Today Anna is not here .", "Heute ist Anna nicht da ."),
    ("Today Anna is here .", "Heute ist Anna da ."),
    ("There is a dog here .", "Hier ist ein Hund ."),
    ("Then Peter sees a dog .", "Dann sieht Peter einen Hund ."),
    ("We have 200 dogs .", "Wir haben 200 Hunde ."),
    ("There is no dog here .", "Hier ist kein Hund ."),
    ("No doubt Anna is here .", "Sicher ist Anna da ."),
    ("Then Mister Peter sees Anna .", "Dann sieht Herr Peter Anna ."),
]


@pytest.fixture(scope="module")
def critical() -> CriticalWords:
    return CriticalWords.estimate(split_pairs(*zip(*SENTENCES * 40, strict=True)))


def lost(critical: CriticalWords, source: str, target: str) -> set[tuple[str, str]]:
    """Return the errors with a probability of at least 0.5, and their words."""
    (pair,) = split_pairs([source], [target])
    sides = {"source": pair.source, "target": pair.target}
    return {
        (each.error, sides[each.side][each.start])
        for each in critical.mismatches(pair)
        if each.probability >= 0.5
    }


def test_good_translations_lose_nothing(critical) -> None:
    for pair in SENTENCES:
        assert not lost(critical, *pair)


def test_negations_are_words_that_negate_on_both_sides(critical) -> None:
    assert {"not", "no"} <= critical.negations[0] and {"nicht", "kein"} <= critical.negations[1]
    assert "dog" not in critical.negations[0] and "hund" not in critical.negations[1]


def test_the_word_after_a_negation_shows_whether_good_translations_lose_it(critical) -> None:
    assert not lost(critical, "There is no doubt .", "Das ist sicher .")
    assert lost(critical, "There is no dog .", "Hier ist ein Hund .") == {("negation", "no")}


def test_what_is_lost_or_altered_has_a_type(critical) -> None:
    assert lost(critical, "Today Anna is not here .", "Heute ist Anna da .") == {("negation", "not")}
    assert lost(critical, "There is no dog .", "Hier ist ein Hund .") == {("negation", "no")}
    assert lost(critical, "We have 200 dogs .", "Wir haben Hunde .") == {("number", "200")}
    swapped = lost(critical, "We have 200 dogs .", "Wir haben 300 Hunde .")
    assert swapped == {("number", "200"), ("number", "300")}
    assert lost(critical, "Then Peter sees a dog .", "Dann sieht Anna einen Hund .") == {
        ("name", "Peter"),
        ("name", "Anna"),
    }


def test_probability_is_that_of_bayes_rule(critical) -> None:
    # 40 of 40 numbers of three digits have a counterpart; two more have the assumed losses.
    (mismatch,) = critical.mismatches(WordPair(("200",), ("x",)))
    assert mismatch.probability == pytest.approx(0.05 / (0.05 + 0.95 * 0.08 / 42))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1,000 dogs", "1.000 Hunde"),
        ("35 000 dogs", "35000 Hunde"),
        ("the 1970s", "die 70er Jahre"),
        ("on 07 May", "am 7. Mai"),
        ("3.5 km", "3,5 km"),
        ("in 2019", "في ٢٠١٩"),
    ],
)
def test_forms_of_a_number_are_equal(source, target) -> None:
    (pair,) = split_pairs([source], [target])
    assert "number" not in {each.error for each in CriticalWords.untrained().mismatches(pair)}


def test_thousands_are_a_part_of_their_number() -> None:
    (pair,) = split_pairs(["3,000 Euro"], ["3,000,000 euros"])
    numbers = [each for each in CriticalWords.untrained().mismatches(pair) if each.error == "number"]
    assert len(numbers) == 5


def test_markup_ends_before_other_scripts() -> None:
    assert not list(markup_mismatches("%d at https://a.example/x", "在https://a.example/x。%d个"))


def test_markup_is_compared_exactly() -> None:
    source = "See https://a.example/b, <b>{name}</b> %s of %(n)d or a@b.example. 5 % of <3"
    assert not list(markup_mismatches(source, source.replace(",", " ;")))
    changed = source.replace("{name}", "{Name}").replace("</b>", "")
    texts = [(each.side, (source, changed)[each.side == "target"][each.start : each.end])
             for each in markup_mismatches(source, changed)]  # fmt: skip
    assert texts == [("source", "{name}"), ("source", "</b>"), ("target", "{Name}")]


def test_numbers_and_markup_need_no_model() -> None:
    check = regard.check(["Pay 1250 to {name} .", "A dog ."], ["Zahle 1520 an {name} .", "Ein {Hund} ."])
    first, second = check.sentences
    assert first.probabilities["number"] >= 0.5 and first.probabilities["markup"] == 0
    assert second.probabilities["number"] == 0 and second.probabilities["markup"] >= 0.5
    findings = [(each.type, each.side, each.text, each.severity) for each in find_errors(first)]
    number = "accuracy/mistranslation/number"
    assert findings == [(number, "source", "1250", "major"), (number, "target", "1520", "major")]
    assert [each.text for each in find_errors(second)] == ["{Hund}"]
