"""Tests of text formats: input gets the punctuation and the case of the training text."""

import pytest
import sacremoses

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.text import TextProcessor
from regard.text.tokenizers.base import TextFormat, TextFormatDetector, detect_text_format
from regard.text.tokenizers.moses import MosesConfig, convert_format
from regard.text.tokenizers.words import WordsConfig

PLAIN_DE = [
    "Der Hund schläft, die Katze nicht.",
    "Prof. Weber kam am 3. Mai; er blieb.",
    '"Ja!", rief (laut) Frau Dr. Müller: "Er ist\'s?"',
    "Sie zahlten 3,50 Euro pro Tag.",
]
RULES = sacremoses.MosesTokenizer(lang="de")
TOKENIZED_DE = [RULES.tokenize(line, escape=False, return_str=True) for line in PLAIN_DE]
GERMAN = TextFormat(tokenized=True, language="de")
VOCABULARY = {word for line in TOKENIZED_DE for word in line.split()}


SENTENCEPIECE = {"kind": "sentencepiece", "vocab_size": 400, "joint": False}


def counted(lines):
    counter = TextFormatDetector()
    for line in lines:
        counter.add(line)
    return counter


@pytest.mark.parametrize(("plain", "tokenized"), [*zip(PLAIN_DE, TOKENIZED_DE, strict=True)])
@pytest.mark.parametrize("known", [VOCABULARY, {".", ",", '"', "!", "?", "'s"}])
def test_plain_text_is_tokenized_like_moses(plain, tokenized, known):
    assert convert_format(plain, GERMAN, known.__contains__) == tokenized


@pytest.mark.parametrize("line", [*TOKENIZED_DE, "Yahoo! heißt es .", "nur Wörter", "", "..."])
def test_tokenized_text_is_unchanged(line):
    assert convert_format(line, GERMAN, VOCABULARY.__contains__) == line
    assert convert_format(line, GERMAN, lambda _: False) == line


@pytest.mark.parametrize(
    ("plain", "tokenized"),
    [
        ("Mr. Smith, we don't.", "Mr. Smith , we don't ."),
        ("I use C++, we don't.", "I use C++ , we don't ."),
        ('"(C++)": 50%!', '" ( C++ ) " : 50% !'),
        ("\u201cDon't\u201d, I use \u00ab50%\u00bb.", "\u201c Don't \u201d , I use \u00ab 50% \u00bb ."),
        ("I use 10\u00a0000, we use 7\u202f000.", "I use 10\u00a0000 , we use 7\u202f000 ."),
        ("C+, use.", "C + , use ."),  # not in the vocabulary, so the rules of Moses apply
        ("I use \u2026 Plan B.", "I use \u2026 Plan B ."),  # a word of marks, and an initial at the end
    ],
)
def test_words_of_the_vocabulary_are_not_split_when_marks_touch_them(plain, tokenized):
    # A vocabulary with the mark of a space contains the empty word.
    known = {"", "I", "use", "B", "Mr.", "we", "C++", "don't", "Don't", "50%", "10\u00a0000", *'.,:!?()"'}
    form = TextFormat(tokenized=True, language="en")
    assert convert_format(plain, form, known.__contains__) == tokenized
    assert convert_format(tokenized, form, known.__contains__) == tokenized


@pytest.mark.parametrize("line", ["मेरे मामा खाते हैं", "می\u200cخواهم به خانه", "Ma\u0308dchen"])
def test_words_with_attached_marks_are_words_without_punctuation(line):
    form = TextFormat(tokenized=True, language="en")
    assert convert_format(line, form, {"."}.__contains__) == line


def test_french_spaced_punctuation_does_not_imply_tokenized_text():
    french = TextFormat(tokenized=True, language="fr")
    known = {"oui", "ça", "va", "?", ","}.__contains__
    assert convert_format("oui, ça va ?", french, known) == "oui , ça va ?"
    assert convert_format("«\u00a0oui\u00a0», ça va\u202f?", french, known) == "« oui » , ça va ?"


def test_escapes_of_the_training_text_are_applied():
    form = counted(["it &apos;s &quot; so &quot; ."]).detect("en")
    assert form == TextFormat(tokenized=True, escaped=True, language="en")
    line = 'It\'s "so" & [so].'
    expected = sacremoses.MosesTokenizer("en").tokenize(line, return_str=True)
    known = {"&apos;s", "&quot;", "&amp;", "&#91;", "&#93;", "."}.__contains__
    assert convert_format(line, form, known) == expected
    assert convert_format("it &apos;s &quot; xyz. &quot;", form, known) == "it &apos;s &quot; xyz. &quot;"


@pytest.mark.parametrize(
    ("lines", "tokenized"),
    [
        (TOKENIZED_DE, True),
        (PLAIN_DE, False),
        (["oui , ça va ?"] * 2, True),
        (["oui, ça va ?"] * 2, False),
        (["他 来 了 。"], True),
        (["यह है।"], False),
        (["no marks here"], False),
    ],
)
def test_text_form_is_detected_from_full_stops_and_commas(lines, tokenized):
    assert counted(lines).detect(None).tokenized is tokenized


def test_language_is_taken_from_file_suffixes_or_rules():
    counter = counted(TOKENIZED_DE)
    files = ["a/train.de", "b.de.gz", "c.de.bz2", "d.de.xz", "e.de.zst"]
    assert detect_text_format(counter, WordsConfig(), files) == GERMAN
    for names in (["a/train.de", "b.at"], ["train.source"], [None]):
        assert detect_text_format(counter, WordsConfig(), names).language is None
    # The Moses rules split off punctuation themselves.
    for code in ("fr", "fin"):
        assert detect_text_format(counter, MosesConfig(language=code), ["train.de"]).language == code


@pytest.mark.parametrize("tokenizer", [{"kind": "words"}, SENTENCEPIECE])
def test_prepared_text_records_its_form_and_applies_it(tmp_path, tokenizer):
    (tmp_path / "train.de").write_text("".join(f"{line}\n" for line in TOKENIZED_DE))
    (tmp_path / "train.en").write_text("".join("The dog sleeps, the cat does not.\n" for _ in TOKENIZED_DE))
    files = {"source": str(tmp_path / "train.de"), "target": str(tmp_path / "train.en")}
    sides = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    data = {"train": [files], "valid": files, "cache_dir": str(tmp_path / "prepared"), **sides}
    prepare_data(from_dict(DataConfig, data))
    text = TextProcessor.load(tmp_path / "prepared")
    assert text.source.text_format == GERMAN and text.target.text_format == TextFormat(language="en")
    for plain, tokenized in zip(PLAIN_DE, TOKENIZED_DE, strict=True):
        assert text.source.tokenize(plain) == text.source.tokenize(tokenized)
        written = text.without_conversion()
        assert text.source.tokenize(tokenized) == written.source.tokenize(tokenized)
        assert text.source.tokenize(plain) != written.source.tokenize(plain)
        assert text.target.tokenize(plain) == written.target.tokenize(plain)


def test_text_without_capital_letters_is_lowercased():
    lower = ["der hund schläft und die größte katze nicht", "1.", "你好"] * 20
    assert counted(lower).detect(None).lowercase
    # Too few words, capital letters, and a script without case.
    for lines in (lower[:9], [*lower, "Ja"], [*lower, "<URL>"], ["你好", "1 2 3"] * 200):
        assert not counted(lines).detect(None).lowercase


def test_words_are_lowercased_unless_they_are_in_the_vocabulary():
    known = {"der", "hund", "schläft", ".", "<URL>"}.__contains__
    form = TextFormat(lowercase=True)
    assert convert_format("Der  HUND sieht Merkel <URL>", form, known) == "der  hund sieht merkel <URL>"
    assert convert_format("Der Hund", TextFormat(), known) == "Der Hund"
    both = TextFormat(tokenized=True, lowercase=True, language="de")
    assert convert_format("Der Hund schläft.", both, known) == "der hund schläft ."
