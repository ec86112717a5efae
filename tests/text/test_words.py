"""Words of every script, by the rules of Unicode (UAX #29)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.words import (
    fold_word,
    is_alphabetic,
    is_reduplication,
    is_word,
    normalize_whitespace,
    split_line,
    split_whitespace,
    word_spans,
)

# Words as the languages' own spelling separates them, by spaces and punctuation marks.
SPACED = [
    "मेरे मामा रोटी खाते हैं ।",
    "আমি বাংলায় গান গাই ।",
    "தமிழ் ஒரு மொழி .",
    "తెలుగు భాష .",
    "മലയാളം ഭാഷ .",
    "ශ්‍රී ලංකාව .",
    "می\u200cخواهم به خانه\u200cها بروم .",
    "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ",
    "שָׁלוֹם עֲלֵיכֶם !",
    "Mäd\u00adchen lau\u00adfen .",
    "አማርኛ ቋንቋ ።",
    "한국어 문장 .",
    "Ελληνικά ή Ағылшын",
    "пʼять oʻzbek",
]


@pytest.mark.parametrize("line", SPACED)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_marks_and_format_characters_belong_to_their_word(line, form):
    line = unicodedata.normalize(form, line)
    assert list(split_line(line)) == line.split(" ")
    assert all(is_word(word) == is_alphabetic(word) for word in split_line(line))


@pytest.mark.parametrize("text", ["Mädchen Ärger Ångström", "한국어", "क़लम ज़रा", "Việt Nam", "İstanbul"])
def test_composed_and_decomposed_words_fold_to_equal_words(text):
    folded = [
        [fold_word(word) for word in split_line(unicodedata.normalize(form, text))] for form in ("NFC", "NFD")
    ]
    assert folded[0] == folded[1] == [fold_word(word) for word in split_line(text)]


def test_invisible_characters_and_case_do_not_change_a_folded_word():
    assert fold_word("MÄD\u00adCHEN") == fold_word("Mädchen") == "mädchen"
    assert fold_word("می\u200cخواهم") == fold_word("میخواهم")
    assert fold_word("\u3164") == "\u3164"  # a word of one invisible letter stays


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("京都は3月", "京 都 は 3 月"),
        ("谢谢,妈妈。", "谢 谢 , 妈 妈 。"),
        ("コーヒー 24時間", "コ ー ヒ ー 24 時 間"),
        (unicodedata.normalize("NFD", "がぎ"), unicodedata.normalize("NFD", "が ぎ")),
        ("กำลัง ๒๕", "กำ ลั ง ๒๕"),
        ("ខ្ញុំ", "ខ្ញុំ"),
        ("𠀀𠀁x", "𠀀 𠀁 x"),
        ("ﾃﾞｰﾀ", "ﾃﾞ ｰ ﾀ"),
    ],
)
def test_each_perceived_character_of_unspaced_scripts_is_a_word(line, words):
    assert " ".join(split_line(line)) == words


def test_marks_symbols_and_emoji_are_words_of_their_own_and_separators_are_none():
    assert split_line("Don't (stop), 👩‍👩‍👧 ❤️ a\u200bb\u200e c\u0000d") == (
        *("Don", "'", "t", "(", "stop", ")", ",", "👩‍👩‍👧", "❤️", "a", "b\u200e", "c", "d"),
    )
    assert not any(map(is_word, ["।", "'", "-", "👩‍👩‍👧", "_"])) and is_word("３")
    assert not is_alphabetic("मे2") and not is_alphabetic("3")


@given(st.text(max_size=30))
def test_spans_give_the_words_and_what_lies_between_has_no_letters(line):
    spans = word_spans(line)
    assert tuple(line[first:last] for first, last in spans) == split_line(line)
    ends = [0, *(end for span in spans for end in span), len(line)]
    between = "".join(line[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))
    assert not any(character.isalnum() for character in between)


@given(st.text(st.characters(max_codepoint=0x250) | st.sampled_from("‐–—„“”…‧\u0300"), max_size=30))
def test_lines_in_the_latin_alphabet_are_split_as_others(line):
    assert split_line(f"{line} م") == (*split_line(line), "م")


@pytest.mark.parametrize("words", ["谢", "妈", "い ろ", "ก", "धीरे", "ধীরে", "آہستہ", "천천히", "ቀስ", "မြ န်"])
def test_languages_of_asia_and_ethiopia_double_words(words):
    assert is_reduplication(words.split())


@pytest.mark.parametrize("words", ["the", "die", "очень", "πολύ", "10", "the dog", "धीरे चलो", "我 们 的"])
def test_doubled_words_of_european_alphabets_and_doubled_phrases_are_no_expressions(words):
    assert not is_reduplication(words.split())


def test_only_ascii_white_space_and_control_characters_separate_words():
    for space in "\u00a0\u202f\u3000\u2009\u2028\u2003":
        assert split_whitespace(f" 10{space}000  apples\t") == [f"10{space}000", "apples"]
        assert normalize_whitespace(f" 10{space}000  apples\t") == f"10{space}000 apples"
    for control in "\0\x01\x1b\x1f\x7f\x85\x9f\r\v\f":
        assert split_whitespace(f"a{control}b") == ["a", "b"]
