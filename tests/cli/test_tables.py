"""Tables that commands write, read back by `csv` and pandas."""

import csv
import io

import pandas
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard.cli.main import app
from regard.cli.output import Output, write_table

CELL = st.text(st.one_of(st.characters(exclude_categories=["Cs", "Cc"]), st.sampled_from("\"\t\r\n'#,")))


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5))
def test_every_cell_is_read_back_exactly(rows) -> None:
    text = io.StringIO(newline="")
    write_table(Output(text, "table"), [("a", "b", "c"), *rows])
    first, *others = csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter="\t")
    assert first == ["a", "b", "c"] and others == [list(row) for row in rows]
    frame = pandas.read_csv(
        io.StringIO(text.getvalue()), sep="\t", keep_default_na=False, dtype=str, skip_blank_lines=False
    )
    assert frame.to_numpy().tolist() == others


def test_quotation_marks_are_words_in_the_table_of_fertilities(tmp_path) -> None:
    (tmp_path / "source").write_text('" a "\n""b " c\n')
    (tmp_path / "links").write_text("0-0 1-1 2-2\n0-0 1-1 1-2 2-3\n")
    run = CliRunner().invoke(
        app, ["fertility", str(tmp_path / "source"), "--links", str(tmp_path / "links"), "--per-word"]
    )
    rows = list(csv.reader(io.StringIO(run.stdout, newline=""), delimiter="\t"))
    assert {row[0]: row[1:] for row in rows} == {
        '"': ["2", "1.333", "3"],
        **{word: ["1", "1.000", "1"] for word in ("a", '""b', "c")},
    }
