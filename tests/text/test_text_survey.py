"""The survey of parallel text: counts of planted findings, scripts, and lengths."""

import pytest

from regard.text.text_survey import survey_pairs

PAIRS = [(f"ein Satz mit der Zahl {i} hier", f"a sentence with number {i} here") for i in range(100)]


def test_planted_findings_are_counted() -> None:
    pairs = [*PAIRS]
    pairs[10] = ("", "a sentence")
    pairs[20] = pairs[30] = PAIRS[40]
    pairs[70] = ("kurz und gut so", "one two three four " * 10)
    survey = survey_pairs(pairs)
    assert (survey.pairs, survey.empty, survey.duplicates) == (100, 1, 2)
    assert survey.target.max_words == 40


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Größe naïve", "LATIN"),
        ("привет x", "CYRILLIC"),
        ("東京に行く", "CJK"),
        ("ひらがな 東", "CJK"),
        ("123 !", ""),
    ],
)
def test_script_of_a_side_is_that_of_most_letters(text, script) -> None:
    assert survey_pairs([(text, "a")]).source.script == script


def test_lengths_are_words_and_characters() -> None:
    side = survey_pairs([("a bb  ccc ", "x"), ("dd", "y"), (" ", "z")]).source
    assert (side.characters, side.max_words) == (11, 3)
    assert side.distinct_characters == 4
