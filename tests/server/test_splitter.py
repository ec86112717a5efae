"""Sentences of texts in several scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.splitter import split_sentences


def split(text: str) -> list[str]:
    return [one.text for one in split_sentences(text)]


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("Ein Hund läuft. Er bellt.", ["Ein Hund läuft.", "Er bellt."]),
        ("Ein Hund läuft . Er bellt !", ["Ein Hund läuft .", "Er bellt !"]),
        ("Wirklich? Ja! Gut… Ende", ["Wirklich?", "Ja!", "Gut…", "Ende"]),
        ("Er sagte: „Halt!“ Dann ging er.", ["Er sagte: „Halt!“", "Dann ging er."]),
        ("He said (again.) Then he left.", ["He said (again.)", "Then he left."]),
        ("Das war 1984. Dann kam er.", ["Das war 1984.", "Dann kam er."]),
        ("In der DDR. Danach nicht.", ["In der DDR.", "Danach nicht."]),
        ("你好。我很好！真的？", ["你好。", "我很好！", "真的？"]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("यह एक घर है। वह लाल है।", ["यह एक घर है।", "वह लाल है।"]),
        ("Первое предложение. Второе.", ["Первое предложение.", "Второе."]),
        ("one\ntwo\r\n\n three", ["one", "two", "three"]),
        ("  spaces \t inside ", ["spaces inside"]),
        ("", []),
        (" \n \n", []),
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text, sentences):
    assert split(text) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Weber kommt mit J. S. Bach.",
        "Das ist z. B. ein Hund.",
        "Das ist z.B. Wasser.",
        "The U.S. Army came.",
        "Am 3. Mai kam er.",
        "Er wohnt bei St. Georg bzw. Nr. 5.",
        "„Halt!“ rief er laut.",
        "Er rief: Halt! und ging weg.",
        "Das kostet 3.50 Euro.",
        "Sie schrieb an a.b@example.org sofort.",
        "Und so weiter... bis zum Ende.",
    ],
)
def test_abbreviations_ordinals_and_small_letters_end_none(text):
    assert split(text) == [text]


def test_where_lines_alone_count_nothing_else_ends_a_sentence():
    assert [one.text for one in split_sentences("A. B! C?\nD", lines_only=True)] == ["A. B! C?", "D"]


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec="utf-8") | st.sampled_from(' .!?\n"“”«»()。aBc1'), max_size=60))
def test_sentences_are_the_text_in_order_with_nothing_lost(text):
    found = split_sentences(text)
    places = [place for one in found for place in (one.start, one.end)]
    assert places == sorted(places)
    assert all(one.text == " ".join(text[one.start : one.end].split()) and one.text for one in found)
    kept = "".join(text[one.start : one.end] for one in found)
    assert "".join(kept.split()) == "".join(text.split())
