import gzip

import pytest

from regard.data.links import format_links, parse_gold, parse_links, read_gold
from regard.errors import DataError


def test_links_are_written_sorted_and_read_back() -> None:
    links = frozenset({(2, 0), (0, 1), (10, 3)})
    assert format_links(links) == "0-1 2-0 10-3"
    assert parse_links(format_links(links)) == links
    assert parse_links("") == frozenset()


def test_possible_links_contain_the_sure_ones() -> None:
    gold = parse_gold("0-0 1p2")
    assert gold.sure == {(0, 0)} and gold.possible == {(0, 0), (1, 2)}


@pytest.mark.parametrize("line", ["0", "0-", "a-b", "0-1-2", "-1-2", "1p"])
def test_what_is_no_link_is_named(line) -> None:
    with pytest.raises(DataError, match="gold:3"):
        parse_gold(line, "gold:3")


def test_a_bad_line_of_a_file_is_named_with_its_number(tmp_path) -> None:
    path = tmp_path / "gold.talp"
    path.write_text("0-0\n0-0 x\n")
    with pytest.raises(DataError, match=r"gold.talp:2"):
        list(read_gold(path))
    path.write_bytes(b"0-0\n\xff\n")
    with pytest.raises(DataError, match=r"gold.talp: line 2"):
        list(read_gold(path))
    packed = tmp_path / "gold.talp.gz"
    packed.write_bytes(gzip.compress(b"0-0 1p1\n"))
    assert [links.possible for links in read_gold(packed)] == [{(0, 0), (1, 1)}]
    with pytest.raises(DataError, match="missing"):
        list(read_gold(tmp_path / "missing"))


def test_links_are_separated_by_ascii_space_alone() -> None:
    assert parse_links(" 0-1\t2-3  4-5 ") == {(0, 1), (2, 3), (4, 5)}
    with pytest.raises(DataError, match="is not a link"):
        parse_links("0-1\u30002-3")
