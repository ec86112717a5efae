"""Inflection: a lemma's characters and a symbol for each feature, from either column order."""

import dataclasses
import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import from_dict
from regard.data.corpus import CorpusConfig, DataConfig
from regard.data.prepared import prepare
from regard.data.text import Side, TextPair, _tell_unknown
from regard.data.tokenizers.inflection import InflectionConfig, InflectionTokenizer
from regard.data.tokenizers.words import SPACE, CharactersConfig, CharactersTokenizer
from regard.data.vocabulary import UNK, Vocabulary
from regard.decoding.analysis import words_of
from regard.errors import DataError

REAL = Path(__file__).parents[3] / "shared/data/inflection"
TOKENIZER = InflectionTokenizer(InflectionConfig())
NOUNS = [
    ("Kloß", "case=nominative,number=plural", "Klöße"),
    ("Ei", "case=dative,number=plural", "Eiern"),
    ("Ei", "case=genitive,number=singular", "Eis"),
]
# Texts with separators, white space and marks of their own kind in them.
lemmas = st.text(st.sampled_from("aÄß -+;=,\u2581N"), min_size=1, max_size=8).map(
    lambda t: " ".join(t.split())
)
features = st.lists(st.text(st.sampled_from("aN1=/.+{}"), min_size=1, max_size=6), min_size=1, max_size=4)


def table(folder, name, rows, order=(0, 1, 2)):
    path = folder / name
    path.write_text("".join("\t".join(row[i] for i in order) + "\n" for row in rows))
    return str(path)


def configure(folder, train, valid, columns):
    data = {
        "folder": str(folder / "prepared"),
        "train": [{"tsv": train, "columns": columns}],
        "valid": {"tsv": valid, "columns": columns},
        "source_tokenizer": {"kind": "inflection"},
        "target_tokenizer": {"kind": "characters"},
    }
    return from_dict(DataConfig, data)


def test_a_lemma_is_its_characters_and_each_feature_is_a_symbol():
    assert TOKENIZER.encode("Kloß\tcase=dative,number=plural") == [*"Kloß", "+case=dative", "+number=plural"]
    assert TOKENIZER.encode("Rad fahren\tV;IND;PST;2;PL")[3:] == [
        *"\u2581fahren", "+V", "+IND", "+PST", "+2", "+PL",
    ]  # fmt: skip
    assert TOKENIZER.encode("a\t1 ; PL") == ["a", "+1", "+PL"]


@given(lemma=lemmas, wanted=features, separator=st.sampled_from([";", ",", " , "]))
def test_features_are_never_taken_for_characters(lemma, wanted, separator):
    tokens = TOKENIZER.encode(f"{lemma}\t{separator.join(wanted)}")
    assert len(tokens) == len(lemma) + len(wanted)
    assert all(len(token) == 1 for token in tokens[: len(lemma)])
    assert TOKENIZER.symbols(tokens) == tokens[len(lemma) :] == [f"+{feature}" for feature in wanted]
    assert TOKENIZER.decode(tokens) == f"{lemma}\t{';'.join(wanted)}"


def test_every_token_is_a_word_of_its_own():
    tokens = TOKENIZER.encode("in Abrede stellen\tV;NFIN")
    assert TOKENIZER.word_ids(tokens) == list(range(len(tokens)))


def test_both_column_orders_give_the_same_arrays(tmp_path):
    made = []
    for order, columns in (((0, 1, 2), [1, 2, 3]), ((0, 2, 1), [1, 3, 2])):
        folder = tmp_path / "".join(map(str, order))
        folder.mkdir()
        path = table(folder, "nouns.tsv", NOUNS, order)
        split = prepare(configure(folder, path, path, columns)).split("train")
        made.append([tuple(ids.tolist() for ids in split.example(row)) for row in range(len(split))])
    assert made[0] == made[1] and len(made[0]) == 3


def test_forms_come_back_from_their_ids_and_sources_from_the_raw_text(tmp_path):
    path = table(tmp_path, "nouns.tsv", NOUNS)
    prepared = prepare(configure(tmp_path, path, path, [1, 2, 3]))
    valid = prepared.split("valid")
    assert [prepared.text.target.decode(valid.example(row)[1]) for row in range(3)] == [n[2] for n in NOUNS]
    sources, forms = valid.raw()
    assert list(forms) == [noun[2] for noun in NOUNS]
    assert [prepared.text.source.encode(line) for line in sources] == [
        valid.example(row)[0].tolist() for row in range(3)
    ]


def test_a_lemma_and_a_form_of_one_character_are_a_pair(tmp_path):
    path = table(tmp_path, "letters.tsv", [("A", "PL", "A")])
    split = prepare(configure(tmp_path, path, path, [1, 2, 3])).split("train")
    assert split.lengths[0].tolist() == [2] and split.lengths[1].tolist() == [2]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Ei\tPL", r"train\.tsv: line 2: 2 tab-separated columns, expected 3"),
        ("Ei", r"train\.tsv: line 2: 1 tab-separated columns, expected 3"),
        ("Ei\t;\tEier", r"train\.tsv: line 2: no features in 'Ei\\t;'"),
        ("Ei\t\tEier", r"train\.tsv: line 2: no features"),
        ("\tPL\tEier", r"train\.tsv: line 2: no lemma"),
    ],
)
def test_a_missing_column_names_file_and_line(tmp_path, line, says):
    path = tmp_path / "train.tsv"
    path.write_text(f"Kloß\tPL\tKlöße\n{line}\n")
    with pytest.raises(DataError, match=says):
        prepare(configure(tmp_path, str(path), table(tmp_path, "valid.tsv", NOUNS), [1, 2, 3]))


def test_text_in_two_files_is_checked_too(tmp_path):
    (tmp_path / "lemmas").write_text("Kloß\tPL\nEi\n")
    (tmp_path / "forms").write_text("Klöße\nEier\n")
    files = {"source": str(tmp_path / "lemmas"), "target": str(tmp_path / "forms")}
    config = configure(tmp_path, "x", "x", [1, 2, 3])
    config = dataclasses.replace(config, train=(from_dict(CorpusConfig, files),))
    with pytest.raises(DataError, match="lemmas: line 2: no tab in 'Ei'"):
        prepare(dataclasses.replace(config, valid=config.train[0]))


def test_a_column_that_was_not_chosen_is_missed(tmp_path):
    path = table(tmp_path, "nouns.tsv", NOUNS)
    with pytest.raises(DataError, match=r"nouns\.tsv: line 1: no tab in 'Kloß'"):
        prepare(configure(tmp_path, path, path, [1, 3]))


@pytest.fixture
def fresh():
    _tell_unknown.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_feature_that_training_never_saw_is_unknown_and_told_of_once(caplog):
    side = Side(TOKENIZER, Vocabulary.build({"E": 1, "i": 1, "+PL": 1}))
    with caplog.at_level(logging.WARNING):
        assert side.encode("Ei\tDU;PL")[2] == UNK
        side.encode("Ei\tDU;PL")
    assert caplog.text.count("+DU: does not occur in the training text; replaced by <unk>") == 1
    assert "+PL" not in caplog.text


@pytest.mark.usefixtures("fresh")
def test_preparing_tells_of_features_that_only_the_validation_text_has(tmp_path, caplog):
    train = table(tmp_path, "train.tsv", NOUNS)
    valid = table(tmp_path, "valid.tsv", [*NOUNS, ("Ei", "case=vocative,number=dual", "Eier")] * 2)
    with caplog.at_level(logging.WARNING):
        prepared = prepare(configure(tmp_path, train, valid, [1, 2, 3]))
        lines = prepared.split("valid").raw()[0]
        assert prepared.text.source.encode(list(lines)[3])[-2:] == [UNK, UNK]
    assert caplog.text.count("+case=vocative:") == caplog.text.count("+number=dual:") == 1


def test_characters_of_a_form_are_words_as_those_of_its_lemma_are(tmp_path):
    text = TextPair(
        Side(TOKENIZER, Vocabulary.build({"E": 1, "i": 1, "+PL": 1})),
        Side(CharactersTokenizer(CharactersConfig()), Vocabulary.build({"E": 1, "i": 1, SPACE: 1})),
    )
    text.save(tmp_path)
    for one in (text, TextPair.load(tmp_path)):
        tokens = one.target.tokenize("Ei Ei")
        assert one.target.word_ids(tokens) == [0, 1, 2, 3, 4]
        assert words_of(one.target, tokens) == ("E", "i", SPACE, "E", "i")
    # Between sentences of characters, words are what spaces separate.
    alone = TextPair(text.target, Side(text.target.tokenizer, text.target.vocabulary))
    assert alone.target.word_ids(tokens) == [0, 0, 1, 1, 1]


def test_a_line_without_features_is_no_inflection_and_an_empty_one_no_problem():
    assert "no tab" in (TOKENIZER.problem("Haus") or "")
    assert TOKENIZER.problem("Haus\tPL") is TOKENIZER.problem("") is TOKENIZER.problem(" \t ") is None
    tagged = Side(TOKENIZER, Vocabulary.build({}, always=["<de>"]), ("<de>",))
    assert tagged.problem("<de> Haus\tPL") is None and "no tab" in (tagged.problem("<de> Haus") or "")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/inflection beside the project")
@pytest.mark.parametrize(
    ("name", "columns", "count"),
    [("de_noun.train.tsv.gz", (0, 1), 6), ("sigmorphon2017-de.train-high.gz", (0, 2), 18)],
)
def test_real_tables_are_read_whole(name, columns, count):
    with gzip.open(REAL / name, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    seen = set()
    for row in rows:
        line = "\t".join(row[column] for column in columns)
        assert TOKENIZER.problem(line) is None
        tokens = TOKENIZER.encode(line)
        assert tokens[: len(row[0])] == list(row[0].replace(" ", "\u2581"))
        seen.update(tokens[len(row[0]) :])
    assert len(seen) == count
