"""Words between ASCII white space, as the Pharaoh format, aligners and language models separate them.

`str.split` also splits at every Unicode space. A token may hold one of those: the ideographic space U+3000 in
Japanese corpora, the no-break space U+00A0 in French ones. Splitting there shifts every link behind it.
"""

import re

__all__ = ["SPACES", "join_spaces", "split_at_spaces"]

SPACES = " \t\n\r\v\f"
_WORD = re.compile(f"[^{SPACES}]+")


def split_at_spaces(line: str) -> list[str]:
    """Return the words of a line, separated by runs of ASCII white space."""
    return _WORD.findall(line)


def join_spaces(line: str) -> str:
    """Return a line with one space between two words and none at its ends."""
    return " ".join(_WORD.findall(line))
