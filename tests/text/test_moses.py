"""Tests of the Moses tokenizer: its tokens are those of sacremoses, and decoding restores the line."""

from functools import cache

import pytest
import sacremoses
from hypothesis import given
from hypothesis import strategies as st

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.errors import ConfigError
from regard.extensions.serve.engine import to_plain_text
from regard.text.tokenizers.base import TextFormat
from regard.text.tokenizers.moses import MosesConfig, MosesTokenizer

DATA = {"train": [{"source": "a", "target": "b"}], "valid": {"source": "a", "target": "b"}}
LINES = [
    ("ar", "قال: «نعم، سأذهب؛ هل أنت بخير؟»."),
    ("bn", "সে বলল, ‘হ্যাঁ।’ র‍্যাম"),
    ("cs", "„Ano,“ řekl. 's' - li, nechce-li."),
    ("de", "„Ja“, sagte er, „das ist’s nicht!“ (»Doch.«)"),
    ("de", "Das kostet 5 € oder $5,50 um 12:30 Uhr; Mitarbeiter/-innen, 3 km/h, 20°C…"),
    ("de", "scho\u0308n u\u0308ber"),
    ("de", "„Er sagte: ‚Nein!‘“, so Müller."),
    ("el", "«Ναι», είπε· τι; σ’ αυτόν, απ’ όλα"),
    ("en", 'It reads: "It\'s 5,300 (or so)."'),
    ("en", "It’s John’s dog, isn’t it? The dogs’ owner read: ‘It’s fine,’ in the ’90s."),
    ("en", "Rock 'n' roll: don't 'quote' the Jones' dog."),
    ("en", "She replied, “Yes,” and then, “No (not now).” “$5” ‘“x”’ (“y”)"),
    ("en", "See https://example.org/a_b?c=d, me@x.org, #tag, and/or R&D, C++, <b>, f(x), 6–7."),
    ("en", "cafe\u0301, Zoe\u0308 👨\u200d👩\u200d👧 ❤\ufe0f 🇩🇪 👍🏽"),
    ("fa", "او گفت: «می\u200cخواهم، کتاب\u200cها؟» ۵۰٪."),
    ("fr", "Il dit : « oui » et s'en va ; quoi ?"),
    ("fr", "l’homme d’affaires n’est pas là aujourd’hui."),
    ("he", 'הוא אמר: צה"ל, ג׳ירף, בית־ספר, שָׁלוֹם.'),
    ("hi", "“यह किताब अच्छी है।” राम ने कहा, 'हाँ'। क्\u200dया?"),
    ("hy", "Նա ասաց՝ «Ի՞նչ, ո՜չ»։"),
    ("ko", "그는 “네.”라고 말했다."),
    ("nl", "zo'n foto's, auto’s"),
    ("ru", "Он сказал: «Мир, „труд“, май!», — и ушёл."),
    ("tr", "Ankara’da “İyi günler!” I\u0307yi, i\u0307yi, Türkiye'nin"),
    ("sv", "Han sade: ”Ja, USA:s bil.” ’Nej’, sa hon."),
    ("uk", "м’ята, п'ять, об’єкт"),
]


@cache
def create(language: str) -> MosesTokenizer:
    return MosesTokenizer(MosesConfig(language=language))


def test_tokens_equal_sacremoses_without_escapes():
    # The example of the sacremoses README.
    tokens = create("en").encode("This, is a sentence with weird\xbb symbols\u2026 appearing everywhere\xbf")
    assert " ".join(tokens) == "This , is a sentence with weird \xbb symbols \u2026 appearing everywhere \xbf"
    rules = sacremoses.MosesTokenizer("en")
    for line in ('it\'s "so" & <so>', "“Yes,” he read (5 %), isn’t it?", "Mr. O'Brien's dogs, 5,300 [1]."):
        assert create("en").encode(line) == rules.tokenize(line, escape=False)


@pytest.mark.parametrize(("language", "line"), LINES)
def test_decoding_restores_the_line(language, line):
    tokenizer = create(language)
    assert tokenizer.decode(tokenizer.encode(line)) == line


@given(words=st.lists(st.text("ab'’5.,&/@#<>;-…éİ\u0308\u200c😀", min_size=1, max_size=6), max_size=6))
@pytest.mark.parametrize("language", ["cs", "de", "en", "fi", "fr"])
def test_decoding_changes_only_spaces(language, words):
    line = " ".join(words)
    tokenizer = create(language)
    assert "".join(tokenizer.decode(tokenizer.encode(line)).split()) == "".join(words)


def test_combining_marks_and_joiners_are_part_of_their_word():
    assert create("de").encode("scho\u0308n, a\u0301") == ["scho\u0308n", ",", "a\u0301"]
    assert create("fa").encode("می\u200cخواهم.") == ["می\u200cخواهم", "."]


def test_a_split_that_decoding_cannot_undo_is_not_made():
    assert create("en").encode("and/or (a/b)") == ["and/or", "(", "a/b", ")"]
    assert create("nl").encode("zo'n foto's") == ["zo'n", "foto's"]
    # Moses writes a space before these marks in French.
    assert create("fr").encode("Quoi? «oui»") == ["Quoi", "?", "«", "oui", "»"]


@pytest.mark.parametrize("kind", ["moses", "bpe"])
@pytest.mark.parametrize("language", ["ja", "zh", "th"])
def test_languages_without_spaces_are_rejected(kind, language):
    with pytest.raises(ConfigError, match="has no spaces between words: use kind 'sentencepiece'"):
        from_dict(DataConfig, {**DATA, "source_tokenizer": {"kind": kind, "language": language}})
    words = {"kind": "bpe", "language": language, "tokenized": True, "joint": False}
    assert from_dict(DataConfig, {**DATA, "source_tokenizer": words}).source_tokenizer.language == language


@pytest.mark.parametrize(
    ("language", "line", "text"),
    [
        ("en", "“ Yes , ” he replied", "“Yes,” he replied"),
        ("en", "it &apos;s a well @-@ known &quot; R &amp; D &quot; .", 'it\'s a well-known "R & D".'),
        ("hi", "यह अच्छी है ।", "यह अच्छी है।"),
        (None, "a b , c ( d ) .", "a b, c (d)."),
        ("ja", "猫 が いる 。", "猫がいる。"),
    ],
)
def test_the_served_page_detokenizes_as_the_tokenizer_does(language, line, text):
    escaped = "&apos;" in line
    assert to_plain_text(line, TextFormat(tokenized=True, escaped=escaped, language=language)) == text
    if not escaped and language not in (None, "ja"):
        assert create(language).decode(line.split()) == text
