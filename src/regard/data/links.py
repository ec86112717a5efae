"""Word alignment links in the Pharaoh format and its `.talp` extension for gold links.

`i-j` links source word i to target word j, both counted from 0; in a gold file `i-j` is sure and `ipj`
possible (Och & Ney 2003). One sentence a line.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.data.spacing import split_at_spaces
from regard.errors import DataError

__all__ = [
    "GoldLinks",
    "Links",
    "check_links",
    "format_links",
    "parse_gold",
    "parse_links",
    "read_gold",
]

DIGITS = 7
"""The most digits of a position: a line has 1 MiB at most."""
Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class GoldLinks:
    """The gold links of one sentence pair.

    Attributes:
        sure: Links every annotator would draw.
        possible: Sure links and the ones that may be drawn; a superset of `sure`.
    """

    sure: Links
    possible: Links


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Links as one Pharaoh line, sorted: `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def _link(text: str, separator: str, where: str) -> tuple[int, int]:
    left, found, right = text.partition(separator)
    if not found or not left.isdecimal() or not right.isdecimal():
        raise DataError(f"{where}: {_clip(text)!r} is not a link; expected source-target, such as 0-1")
    if max(len(left), len(right)) > DIGITS:
        raise DataError(f"{where}: {_clip(text)!r} points beyond any line; lines have 1 MiB at most")
    return int(left), int(right)


def _clip(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def parse_links(line: str, where: str = "links") -> Links:
    """Read one Pharaoh line.

    Raises:
        DataError: if a field is not `i-j`; `where` opens the message.
    """
    return frozenset(_link(field, "-", where) for field in split_at_spaces(line))


def check_links(links: Links, words: Mapping[str, int | None], where: str, note: str = "") -> None:
    """Refuse links of another sentence.

    Args:
        links: The links.
        words: How many words the two sides have, by their names; none where that is not known.
        where: What opens the message.
        note: What ends it.

    Raises:
        DataError: if a link points beyond the words.
    """
    for side, (name, count) in enumerate(words.items()):
        beyond = sorted(link for link in links if count is not None and link[side] >= count)
        if beyond:
            raise DataError(
                f"{where}: link {beyond[0][0]}-{beyond[0][1]} points beyond the {name} sentence, which has "
                f"{count} words{note}"
            )


def parse_gold(line: str, where: str = "gold links") -> GoldLinks:
    """Read one `.talp` line: `i-j` sure, `ipj` possible.

    Raises:
        DataError: if a field is neither; `where` opens the message.
    """
    fields = split_at_spaces(line)
    sure = frozenset(_link(field, "-", where) for field in fields if "p" not in field)
    possible = frozenset(_link(field, "p", where) for field in fields if "p" in field)
    return GoldLinks(sure, sure | possible)


def read_gold(path: Path | str) -> Iterator[GoldLinks]:
    """The gold links of a `.talp` file, plain or gzip, one a line.

    Raises:
        DataError: if it cannot be read (see `read_lines`) or a field is no link; names the line.
    """
    from regard.data.corpus import read_lines  # brings numpy, which links do without

    for number, line in enumerate(read_lines(path), 1):
        yield parse_gold(line, f"{path}:{number}")
