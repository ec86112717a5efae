"""Sentence splitting in several scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.serve.served import SEPARATORS
from regard.extensions.serve import validation
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.validation import separator, split_sentences, split_texts
from regard.text.words import normalize_whitespace, split_whitespace


def split(text: str, language: str | None = None) -> list[str]:
    return [one.text for one in split_sentences(text, language=language)]


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("Ein Hund läuft. Er bellt.", ["Ein Hund läuft.", "Er bellt."]),
        ("Ein Hund läuft . Er bellt !", ["Ein Hund läuft .", "Er bellt !"]),
        ("Er sagte: „Halt!“ Dann ging er.", ["Er sagte: „Halt!“", "Dann ging er."]),
        ("你好。我很好！真的？", ["你好。", "我很好！", "真的？"]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("यह एक घर है। वह लाल है।", ["यह एक घर है।", "वह लाल है।"]),
        ("one\ntwo\r\n\n three", ["one", "two", "three"]),
        ("  spaces \t inside ", ["spaces inside"]),
        (" \n \n", []),
    ],
)
@pytest.mark.parametrize("language", [None, "de"])
def test_text_is_split_at_sentence_ends(text, sentences, language):
    assert split(text, language) == sentences


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Prof. Weber kommt mit J. S. Bach."),
        ("de", "Das ist z. B. ein Hund."),
        ("de", "Am 3. Mai kam er."),
        ("de", "„Halt!“ rief er laut."),
        ("de", "Das kostet 3.50 Euro."),
        ("de", "Sie schrieb an a.b@example.org sofort."),
        (None, "Gen. Lee and Prof. Weber met Mr. Smith."),
        ("es", "El Sr. García vive aquí."),
        ("xx", "Mr. Smith came."),
    ],
)
def test_abbreviations_ordinals_and_lowercase_do_not_end_sentences(language, text):
    assert split(text, language) == [text]


def test_positions_refer_to_the_original_text():
    """Positions count code points. Sentencex 1.0.32 fails at U+3000 after an initial."""
    text = "\u3000😀 J.\u3000Ä. \u00a0Weber kam.\u3000 Er ging.\n Ja."
    found = split_sentences(text, language="de")
    assert [text[one.start : one.end] for one in found][1:] == ["Er ging.", "Ja."]
    assert [one.text for one in found] == [normalize_whitespace(text[one.start : one.end]) for one in found]


def test_line_that_cannot_be_split_is_one_sentence(monkeypatch, caplog):
    class PanicException(BaseException):
        """The exception of a panic in Rust."""

    def fail(language, line):
        raise PanicException("byte index 4 is not a char boundary")

    monkeypatch.setattr(validation, "segment", fail)
    assert split("One. Two.\nThree.") == ["One. Two.", "Three."]
    assert "a line of 9 characters is not split" in caplog.text


def test_lines_only_splits_only_at_line_breaks():
    assert [one.text for one in split_sentences("A. B! C?\nD", lines_only=True)] == ["A. B! C?", "D"]


@settings(max_examples=150)
@given(
    st.text(st.characters(codec="utf-8") | st.sampled_from(' .!?\n"“”«»()。aBc1\u3000\u00a0'), max_size=60),
    st.sampled_from([None, "de", "ja", "ar"]),
)
def test_sentences_cover_the_text_in_order(text, language):
    found = split_sentences(text, language=language)
    places = [place for one in found for place in (one.start, one.end)]
    assert places == sorted(places)
    assert all(one.text == normalize_whitespace(text[one.start : one.end]) and one.text for one in found)
    kept = "".join(text[one.start : one.end] for one in found)
    visible, expected = ("".join(split_whitespace("".join(part.split()))) for part in (kept, text))
    assert visible == expected


@pytest.mark.parametrize(("gap", "before", "after", "expected"), SEPARATORS)
def test_separator_follows_the_script_of_the_translation(gap, before, after, expected):
    assert separator(gap, before, after) == expected


@pytest.mark.parametrize(
    ("source", "language", "translations", "expected"),
    [
        (
            "Hello. Who is it?\nHe is here. Good night.",
            "en",
            ["你好。", "是谁？", "是我。", "好。"],
            "你好。是谁？\n是我。好。",
        ),
        ("你好。是谁？", "zh", ["Hello.", "Who is it?"], "Hello. Who is it?"),
        ("你好。是谁？", "zh", ["こんにちは。", "誰ですか？"], "こんにちは。誰ですか？"),
        ("  One.  Two. ", "en", ["Eins.", "Zwei."], "  Eins.  Zwei. "),
    ],
)
def test_translated_sentences_are_joined_as_their_language_is_written(
    source, language, translations, expected
):
    texts = split_texts([source], True, ServeConfig(), language)
    assert texts.join(translations) == [expected]
