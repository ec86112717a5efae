"""Splitting of lines at ASCII white space only, as in the Pharaoh format, word aligners and n-gram tools.

`str.split` also splits at every Unicode space. A token may contain one: the ideographic space U+3000 in
Japanese corpora, the no-break space U+00A0 in French corpora. Splitting there would shift all later word
positions, and with them the alignment links.
"""

import re

__all__ = ["ASCII_WHITESPACE", "normalize_whitespace", "split_whitespace"]

ASCII_WHITESPACE = " \t\n\r\v\f"
_WORD = re.compile(f"[^{ASCII_WHITESPACE}]+")


def split_whitespace(line: str) -> list[str]:
    """Return the words of a line, separated by runs of ASCII white space."""
    return _WORD.findall(line)


def normalize_whitespace(line: str) -> str:
    """Return a line with single spaces between words and without leading and trailing white space."""
    return " ".join(_WORD.findall(line))
