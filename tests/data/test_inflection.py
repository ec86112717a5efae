"""Tests of the inflection tokenizer: characters of the lemma and one symbol per morphological feature."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.generation.linking import tokens_to_words
from regard.text.tokenizers.words import (
    SPACE_MARK,
    CharactersConfig,
    CharactersTokenizer,
    InflectionConfig,
    InflectionTokenizer,
)
from regard.text.vocabulary import Vocabulary

TOKENIZER = InflectionTokenizer(InflectionConfig())
NOUNS = [
    ("Kloß", "case=nominative,number=plural", "Klöße"),
    ("Ei", "case=dative,number=plural", "Eiern"),
    ("Ei", "case=genitive,number=singular", "Eis"),
]
# Lemmas and features that contain the separators, white space and markers of the format itself.
lemmas = st.text(st.sampled_from("aÄß -+;=,\u2581N"), min_size=1, max_size=8).map(
    lambda t: " ".join(t.split())
)
features = st.lists(st.text(st.sampled_from("aN1=/.+{}"), min_size=1, max_size=6), min_size=1, max_size=4)


def table(directory, name, rows):
    path = directory / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(path)


def configure(directory, train, valid, columns):
    data = {
        "cache_dir": str(directory / "prepared"),
        "train": [{"file": train, "columns": columns}],
        "valid": {"file": valid, "columns": columns},
        "source_tokenizer": {"kind": "inflection"},
        "target_tokenizer": {"kind": "characters"},
    }
    return from_dict(DataConfig, data)


def test_lemmas_become_characters_and_features_become_symbols():
    assert TOKENIZER.encode("Kloß\tcase=dative,number=plural") == [*"Kloß", "+case=dative", "+number=plural"]
    assert TOKENIZER.encode("Rad fahren\tV;IND;PST;2;PL")[3:] == [
        *"\u2581fahren", "+V", "+IND", "+PST", "+2", "+PL",
    ]  # fmt: skip
    assert TOKENIZER.encode("a\t1 ; PL") == ["a", "+1", "+PL"]


@given(lemma=lemmas, wanted=features, separator=st.sampled_from([";", ",", " , "]))
def test_features_are_distinguished_from_characters(lemma, wanted, separator):
    tokens = TOKENIZER.encode(f"{lemma}\t{separator.join(wanted)}")
    assert len(tokens) == len(lemma) + len(wanted)
    assert all(len(token) == 1 for token in tokens[: len(lemma)])
    assert tokens[len(lemma) :] == [f"+{feature}" for feature in wanted]
    assert TOKENIZER.decode(tokens) == f"{lemma}\t{';'.join(wanted)}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ei\tPL", r"train\.tsv: line 2: 2 columns, expected 3"),
        ("Ei\t;\tEier", r"train\.tsv: line 2: no features in 'Ei\\t;'"),
        ("Ei\t\tEier", r"train\.tsv: line 2: no features"),
        ("\tPL\tEier", r"train\.tsv: line 2: no lemma"),
    ],
)
def test_missing_columns_are_reported_with_file_and_line(tmp_path, line, message):
    path = tmp_path / "train.tsv"
    path.write_text(f"Kloß\tPL\tKlöße\n{line}\n")
    with pytest.raises(DataError, match=message):
        prepare_data(configure(tmp_path, str(path), table(tmp_path, "valid.tsv", NOUNS), [1, 2, 3]))


def test_characters_of_forms_count_as_words(tmp_path):
    text = TextProcessor(
        TextSide(TOKENIZER, Vocabulary.build({"E": 1, "i": 1, "+PL": 1})),
        TextSide(CharactersTokenizer(CharactersConfig()), Vocabulary.build({"E": 1, "i": 1, SPACE_MARK: 1})),
    )
    text.save(tmp_path)
    for one in (text, TextProcessor.load(tmp_path)):
        tokens = one.target.tokenize("Ei Ei")
        assert one.target.word_ids(tokens) == [0, 1, 2, 3, 4]
        assert tokens_to_words(one.target, tokens) == ("E", "i", SPACE_MARK, "E", "i")
    # If both sides are tokenized into characters, words are separated by spaces.
    alone = TextProcessor(text.target, TextSide(text.target.tokenizer, text.target.vocabulary))
    assert alone.target.word_ids(tokens) == [0, 0, 1, 1, 1]


def test_lines_without_features_are_invalid_but_empty_lines_are_valid():
    assert "no tab" in (TOKENIZER.format_error("Haus") or "")
    assert [TOKENIZER.format_error(line) for line in ("Haus\tPL", "", " \t ")] == [None] * 3
    tagged = TextSide(TOKENIZER, Vocabulary.build({}, required_tokens=["<de>"]), ("<de>",))
    assert tagged.format_error("<de> Haus\tPL") is None
    assert "no tab" in (tagged.format_error("<de> Haus") or "")
