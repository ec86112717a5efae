"""Tables that commands write, read back by `csv` and pandas."""

import csv
import io

import pandas
from hypothesis import given
from hypothesis import strategies as st

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
