"""Tests of the tables of the lexicon: every mistake is reported with its file and line."""

import shutil
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.extensions.phrasebook import lexicon as package
from regard.extensions.phrasebook.lexicon import Lexicon
from regard.extensions.phrasebook.lexicon.table import read_table

TABLES = Path(package.__file__).parent


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for path in TABLES.glob("*.tsv"):
        shutil.copy(path, tmp_path)
    return tmp_path


def _append(tables: Path, name: str, **cells: str) -> int:
    """Append a row to a table and return its line number."""
    path = tables / name
    lines = path.read_text("utf-8").splitlines()
    lines.append("\t".join(cells.get(column, "") for column in lines[0].split("\t")))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return len(lines)


NOUN = {"class": "thing", "lemma": "Besen", "gender": "m", "genitive": "Besens", "plural": "Besen"}
VERB = {"frame": "transitive", "infinitive": "kehren", "english": "sweep", "subjects": "person"}
ADJECTIVE = {"lemma": "rund", "english": "round", "classes": "thing"}
EXPRESSION = {"category": "manner", "german": "ganz leise"}


def test_a_new_row_becomes_an_entry(tables):
    _append(tables, "nouns.tsv", **NOUN, english="broom")
    _append(tables, "verbs.tsv", **VERB, english_past="swept", english_participle="swept", objects="building")
    lexicon = Lexicon(tables)
    assert lexicon.nouns["thing"].items[-1].plural == ("brooms",)
    verb = lexicon.verbs["transitive"].items[-1]
    assert (verb.forms.participle, verb.english.past) == ("gekehrt", "swept")


@pytest.mark.parametrize(
    ("name", "cells", "problem"),
    [
        ("nouns.tsv", NOUN, "english is missing"),
        ("nouns.tsv", {**NOUN, "english": "broom", "genitive": ""}, "genitive is missing"),
        ("nouns.tsv", {**NOUN, "english": "broom", "gender": "x"}, "gender is 'x'; expected one of m, f, n"),
        ("nouns.tsv", {**NOUN, "english": "broom", "class": "things"}, "class is 'things'; expected one of"),
        ("nouns.tsv", {**NOUN, "english": "man", "lemma": "Mann"}, "'Mann' is already in line 2"),
        ("noun_subclasses.tsv", {"class": "child", "lemma": "Kalb"}, "lemma is 'Kalb'; expected"),
        ("noun_subclasses.tsv", {"class": "child", "lemma": "Kind"}, "'child Kind' is already in line 2"),
        (
            "places.tsv",
            {"lemma": "Haus", "position": "in", "english_position": "in", "direction": "in"},
            "english_direction is missing",
        ),
        ("adjectives.tsv", {**ADJECTIVE, "classes": "things"}, "classes is 'things'; expected one of person"),
        ("adjectives.tsv", {**ADJECTIVE, "comparative": "runder"}, "superlative is missing"),
        (
            "adjectives.tsv",
            {**ADJECTIVE, "english_superlative": "roundest"},
            "english_comparative is missing",
        ),
        ("verbs.tsv", VERB, "objects is missing"),
        ("verbs.tsv", {**VERB, "frame": "transitiv"}, "frame is 'transitiv'; expected one of intransitive"),
        ("verbs.tsv", {**VERB, "objects": "thing", "preterite": "kehrte"}, "present is missing"),
        ("verbs.tsv", {**VERB, "objects": "thing", "english_past": "swept"}, "english_participle is missing"),
        ("verbs.tsv", {**VERB, "objects": "thing", "auxiliary": "haben"}, "auxiliary is 'haben'"),
        ("verbs.tsv", {**VERB, "objects": "thing", "features": "pasive"}, "features is 'pasive'"),
        (
            "verbs.tsv",
            {**VERB, "objects": "thing", "complements": "to"},
            "complements is 'to'; expected none",
        ),
        ("expressions.tsv", EXPRESSION, "english is missing"),
        ("expressions.tsv", {**EXPRESSION, "english": "softly"}, "links are missing; 2 German and 1 English"),
        ("expressions.tsv", {**EXPRESSION, "english": "softly", "links": "2-0"}, "links is '2-0'; expected"),
        ("expressions.tsv", {"category": "manners", "german": "a", "english": "b"}, "category is 'manners'"),
        ("expressions.tsv", {"category": "month", "german": "Mai", "english": "May"}, "already in line"),
        ("expressions.tsv", {"category": "weather", "german": "mild", "english": "mild"}, "weight is ''"),
    ],
)
def test_an_invalid_row_is_reported_with_file_and_line(tables, name, cells, problem):
    number = _append(tables, name, **cells)
    with pytest.raises(DataError) as caught:
        Lexicon(tables)
    assert str(caught.value).startswith(f"{tables / name}:{number}: ")
    assert problem in str(caught.value)


def test_a_table_without_a_needed_category_is_an_error(tables):
    path = tables / "expressions.tsv"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("month\t")), "utf-8")
    with pytest.raises(
        DataError, match=r"expressions\.tsv:\d+: the table has no row whose category is 'month'"
    ):
        Lexicon(tables)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t\.tsv: not a readable table"),
        ("a\tc\n", r"t\.tsv:1: column 'c' is unknown; expected a, b"),
        ("a\ta\n", r"t\.tsv:1: column 'a' occurs twice"),
        ("a\n", r"t\.tsv:1: column 'b' is missing"),
        ("a\tb\nx\ty\n\n", r"t\.tsv:3: a is missing"),
        ("a\tb\nx\ty\tz\n", r"t\.tsv:2: the line has 3 cells; the table has 2 columns"),
        ("a\tb\nx\ty\nx\tz\n", r"t\.tsv:3: 'x' is already in line 2"),
    ],
)
def test_an_invalid_table_is_an_error(tmp_path, text, message):
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.tsv", "a", "b")


def test_a_missing_table_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"t\.tsv: not a readable table: .*No such file"):
        read_table(tmp_path / "t.tsv", "a")


def test_empty_cells_at_the_end_of_a_line_may_be_omitted(tmp_path):
    (tmp_path / "t.tsv").write_text("a\tb\nx\n")
    assert read_table(tmp_path / "t.tsv", "a", "b")[0].cells == {"a": "x", "b": ""}
