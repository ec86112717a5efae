"""Tests of the inflection tokenizer: characters of the lemma and one symbol per morphological feature."""

import dataclasses
import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.text import TextProcessor, TextSide, _warn_unknown
from regard.errors import DataError
from regard.generation.linking import tokens_to_words
from regard.text.corpus import CorpusConfig
from regard.text.tokenizers.words import (
    SPACE_MARK,
    CharactersConfig,
    CharactersTokenizer,
    InflectionConfig,
    InflectionTokenizer,
)
from regard.text.vocabulary import UNK, Vocabulary

REAL = Path(__file__).parents[3] / "shared/data/inflection"
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


def table(directory, name, rows, order=(0, 1, 2)):
    path = directory / name
    path.write_text("".join("\t".join(row[i] for i in order) + "\n" for row in rows))
    return str(path)


def configure(directory, train, valid, columns):
    data = {
        "cache_dir": str(directory / "prepared"),
        "train": [{"tsv": train, "columns": columns}],
        "valid": {"tsv": valid, "columns": columns},
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
    assert TOKENIZER.symbols(tokens) == tokens[len(lemma) :] == [f"+{feature}" for feature in wanted]
    assert TOKENIZER.decode(tokens) == f"{lemma}\t{';'.join(wanted)}"


def test_every_token_counts_as_a_word():
    tokens = TOKENIZER.encode("in Abrede stellen\tV;NFIN")
    assert TOKENIZER.word_ids(tokens) == list(range(len(tokens)))


def test_column_order_does_not_change_the_arrays(tmp_path):
    made = []
    for order, columns in (((0, 1, 2), [1, 2, 3]), ((0, 2, 1), [1, 3, 2])):
        directory = tmp_path / "".join(map(str, order))
        directory.mkdir()
        path = table(directory, "nouns.tsv", NOUNS, order)
        split = prepare_data(configure(directory, path, path, columns)).split("train")
        made.append([tuple(ids.tolist() for ids in split.example(row)) for row in range(len(split))])
    assert made[0] == made[1] and len(made[0]) == 3


def test_forms_are_decoded_from_ids_and_sources_from_raw_text(tmp_path):
    path = table(tmp_path, "nouns.tsv", NOUNS)
    prepared = prepare_data(configure(tmp_path, path, path, [1, 2, 3]))
    valid = prepared.split("valid")
    assert [prepared.text.target.decode(valid.example(row)[1]) for row in range(3)] == [n[2] for n in NOUNS]
    sources, forms = valid.raw_lines()
    assert list(forms) == [noun[2] for noun in NOUNS]
    assert [prepared.text.source.encode(line) for line in sources] == [
        valid.example(row)[0].tolist() for row in range(3)
    ]


def test_single_characters_are_valid_lemmas_and_forms(tmp_path):
    path = table(tmp_path, "letters.tsv", [("A", "PL", "A")])
    split = prepare_data(configure(tmp_path, path, path, [1, 2, 3])).split("train")
    assert split.lengths[0].tolist() == [2] and split.lengths[1].tolist() == [2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ei\tPL", r"train\.tsv: line 2: 2 tab-separated columns, expected 3"),
        ("Ei", r"train\.tsv: line 2: 1 tab-separated columns, expected 3"),
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


def test_two_file_corpora_are_checked(tmp_path):
    (tmp_path / "lemmas").write_text("Kloß\tPL\nEi\n")
    (tmp_path / "forms").write_text("Klöße\nEier\n")
    files = {"source": str(tmp_path / "lemmas"), "target": str(tmp_path / "forms")}
    config = configure(tmp_path, "x", "x", [1, 2, 3])
    config = dataclasses.replace(config, train=(from_dict(CorpusConfig, files),))
    with pytest.raises(DataError, match="lemmas: line 2: no tab in 'Ei'"):
        prepare_data(dataclasses.replace(config, valid=config.train[0]))


def test_unselected_feature_column_is_reported(tmp_path):
    path = table(tmp_path, "nouns.tsv", NOUNS)
    with pytest.raises(DataError, match=r"nouns\.tsv: line 1: no tab in 'Kloß'"):
        prepare_data(configure(tmp_path, path, path, [1, 3]))


@pytest.fixture
def fresh():
    _warn_unknown.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_unseen_features_are_unknown_and_logged_once(caplog):
    side = TextSide(TOKENIZER, Vocabulary.build({"E": 1, "i": 1, "+PL": 1}))
    with caplog.at_level(logging.WARNING):
        assert side.encode("Ei\tDU;PL")[2] == UNK
        side.encode("Ei\tDU;PL")
    assert caplog.text.count("+DU: does not occur in the training text; replaced by <unk>") == 1
    assert "+PL" not in caplog.text


@pytest.mark.usefixtures("fresh")
def test_features_unique_to_validation_text_are_logged(tmp_path, caplog):
    train = table(tmp_path, "train.tsv", NOUNS)
    valid = table(tmp_path, "valid.tsv", [*NOUNS, ("Ei", "case=vocative,number=dual", "Eier")] * 2)
    with caplog.at_level(logging.WARNING):
        prepared = prepare_data(configure(tmp_path, train, valid, [1, 2, 3]))
        lines = prepared.split("valid").raw_lines()[0]
        assert prepared.text.source.encode(list(lines)[3])[-2:] == [UNK, UNK]
    assert caplog.text.count("+case=vocative:") == caplog.text.count("+number=dual:") == 1


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
    assert (
        TOKENIZER.format_error("Haus\tPL")
        is TOKENIZER.format_error("")
        is TOKENIZER.format_error(" \t ")
        is None
    )
    tagged = TextSide(TOKENIZER, Vocabulary.build({}, required_tokens=["<de>"]), ("<de>",))
    assert tagged.format_error("<de> Haus\tPL") is None and "no tab" in (
        tagged.format_error("<de> Haus") or ""
    )


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/inflection next to the project")
@pytest.mark.parametrize(
    ("name", "columns", "count"),
    [("de_noun.train.tsv.gz", (0, 1), 6), ("sigmorphon2017-de.train-high.gz", (0, 2), 18)],
)
def test_real_tables_are_read_completely(name, columns, count):
    with gzip.open(REAL / name, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    seen = set()
    for row in rows:
        line = "\t".join(row[column] for column in columns)
        assert TOKENIZER.format_error(line) is None
        tokens = TOKENIZER.encode(line)
        assert tokens[: len(row[0])] == list(row[0].replace(" ", "\u2581"))
        seen.update(tokens[len(row[0]) :])
    assert len(seen) == count
