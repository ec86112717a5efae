"""Word alignment links in the Pharaoh format and its `.talp` extension for gold links.

`i-j` links source word i to target word j, both counted from 0. In a gold file, `i-j` is a sure link and
`ipj` a possible link (Och & Ney, 2003). Each line contains the links of one sentence pair.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError
from regard.text.corpus import read_lines
from regard.text.words import split_whitespace

_LINK = re.compile(r"([0-9]{1,7})([-p])([0-9]{1,7})")  # lines of at most 1 MiB have no larger positions
Links = frozenset[tuple[int, int]]
MAX_LENGTH = 1_000
"""Maximum number of words of a side of a pair, of aligners without a limit of their own."""


@dataclass(frozen=True)
class GoldLinks:
    """The gold links of one sentence pair.

    Attributes:
        sure: Unambiguous links.
        possible: Sure links and links that are optional; a superset of `sure`.
    """

    sure: Links
    possible: Links


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Return links as one sorted line in the Pharaoh format, such as `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def _link(text: str, separator: str, where: str) -> tuple[int, int]:
    match = _LINK.fullmatch(text)
    if match is None or match[2] != separator:
        raise DataError(f"{where}: {text[:60]!r} is not a link; expected source-target, such as 0-1")
    return int(match[1]), int(match[3])


def parse_links(line: str, where: str = "links") -> Links:
    """Parse one line in the Pharaoh format.

    Raises:
        DataError: if a field is not `i-j`. The message starts with `where`.
    """
    return frozenset(_link(field, "-", where) for field in split_whitespace(line))


def check_links(links: Links, num_words: Mapping[str, int | None], where: str, suffix: str = "") -> None:
    """Check that links are within a sentence pair.

    Args:
        links: The links.
        num_words: Number of words of the first and the second side, by name. None skips the side.
        where: File and line, at the start of the message.
        suffix: Text at the end of the message.

    Raises:
        DataError: if the position of a link is not less than the number of words.
    """
    for side, (name, count) in enumerate(num_words.items()):
        beyond = sorted(link for link in links if count is not None and link[side] >= count)
        if beyond:
            raise DataError(
                f"{where}: link {beyond[0][0]}-{beyond[0][1]} points beyond the {name} sentence, which has "
                f"{count} words{suffix}"
            )


def parse_gold_links(line: str, where: str = "gold links") -> GoldLinks:
    """Parse one line of a `.talp` file: `i-j` is a sure link, `ipj` a possible link.

    Raises:
        DataError: if a field is neither. The message starts with `where`.
    """
    fields = split_whitespace(line)
    # A sure link is also a possible link (Och & Ney, 2003).
    sure = frozenset(_link(field, "-", where) for field in fields if "p" not in field)
    possible = frozenset(_link(field, "p", where) for field in fields if "p" in field)
    return GoldLinks(sure, sure | possible)


def read_gold_links(path: Path | str) -> Iterator[GoldLinks]:
    """Yield the gold links of each line of a `.talp` file, plain or compressed.

    Raises:
        DataError: if the file cannot be read (see `read_lines`) or a field is not a link. The message gives
            the line number.
    """
    for number, line in enumerate(read_lines(path), 1):
        yield parse_gold_links(line, f"{path}:{number}")
