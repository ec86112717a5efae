"""Splitting of lines at ASCII white space only, as in the Pharaoh format, word aligners and n-gram tools.

`str.split` also splits at every Unicode space. A token may contain one: the ideographic space U+3000 in
Japanese corpora, the no-break space U+00A0 in French corpora. Splitting there would shift all later word
positions, and with them the alignment links.

Control characters count as white space, as they do in text files, where `clean_line` replaces them.
"""

import re

__all__ = ["ASCII_WHITESPACE", "CONTROL_CHARACTERS", "normalize_whitespace", "split_whitespace"]

ASCII_WHITESPACE = " \t\n\r\v\f"
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except the tab and the line feed, which separate the fields and lines of files."""
_WORD = re.compile("[^\x00-\x20\x7f-\x9f]+")


def split_whitespace(line: str) -> list[str]:
    """Return the words of a line, separated by runs of ASCII white space and control characters."""
    return _WORD.findall(line)


def normalize_whitespace(line: str) -> str:
    """Return a line with single spaces between words and without leading and trailing white space."""
    return " ".join(_WORD.findall(line))
