"""Tests of word links in Pharaoh format, and of gold alignments with sure and possible links."""

import gzip

import pytest

from regard.errors import DataError
from regard.text.links import format_links, parse_gold_links, parse_links, read_gold_links


def test_links_are_sorted_and_round_trip() -> None:
    links = frozenset({(2, 0), (0, 1), (10, 3)})
    assert format_links(links) == "0-1 2-0 10-3"
    assert parse_links(format_links(links)) == links
    assert parse_links("") == frozenset()


def test_sure_links_are_also_possible() -> None:
    gold = parse_gold_links("0-0 1p2")
    assert gold.sure == {(0, 0)} and gold.possible == {(0, 0), (1, 2)}


@pytest.mark.parametrize(
    "line", ["0", "0-", "a-b", "0-1-2", "-1-2", "1p", "0-99999999", "1-" + "9" * 5000, "²-1"]
)
@pytest.mark.parametrize("parse", [parse_links, parse_gold_links])
def test_invalid_links_are_reported(parse, line) -> None:
    with pytest.raises(DataError, match="links:3"):
        parse(f"0-0 {line}", "links:3")


def test_invalid_lines_are_reported_with_their_number(tmp_path) -> None:
    path = tmp_path / "gold.talp"
    path.write_text("0-0\n0-0 x\n")
    with pytest.raises(DataError, match=r"gold.talp:2"):
        list(read_gold_links(path))
    path.write_bytes(b"0-0\n\xff\n")
    with pytest.raises(DataError, match=r"gold.talp: line 2"):
        list(read_gold_links(path))
    zipped = tmp_path / "gold.talp.gz"
    zipped.write_bytes(gzip.compress(b"0-0 1p1\n"))
    assert [links.possible for links in read_gold_links(zipped)] == [{(0, 0), (1, 1)}]
    with pytest.raises(DataError, match="missing"):
        list(read_gold_links(tmp_path / "missing"))


def test_only_ascii_white_space_separates_links() -> None:
    assert parse_links(" 0-1\t2-3  4-5 ") == {(0, 1), (2, 3), (4, 5)}
    with pytest.raises(DataError, match="is not a link"):
        parse_links("0-1\u30002-3")
