"""What a person hands over in Python, checked: texts, and values for one of them, for all or for each."""

from collections.abc import Iterable
from typing import Any

from regard.errors import UsageError

__all__ = ["as_list", "for_each", "lines_of", "sentences", "terms_line"]


def as_list(given: Any, name: str) -> list[Any]:
    """What can be gone through, as a list.

    Raises:
        UsageError: if it cannot.
    """
    try:
        return list(given)
    except TypeError:
        raise UsageError(f"{name}: {given!r}; expected a list") from None


def sentences(given: Any, name: str) -> list[str]:
    """Texts that can be written down.

    Raises:
        UsageError: if one is none.
    """
    texts = as_list(given, name)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{name}: {text!r}; expected a text")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{name}: {text!r}: character {error.start + 1} stands for nothing") from None
    return texts


def lines_of(given: Iterable[Any], name: str) -> list[str]:
    """Texts, or the texts of results.

    Raises:
        UsageError: if it is a single text, or something else is among them.
    """
    if isinstance(given, str):
        raise UsageError(f"{name}: a single text; expected a list of sentences")
    return sentences([getattr(line, "text", line) for line in as_list(given, name)], name)


def for_each(value: Any, alike: bool, count: int, name: str) -> list[Any]:
    """A value for each of some sentences.

    Args:
        value: The value, or one a sentence.
        alike: Whether all get the same one.
        count: How many sentences there are.
        name: What the values are, for messages.

    Raises:
        UsageError: if there are not as many.
    """
    if alike:
        return [value] * count
    found = as_list(value, name)
    if len(found) != count:
        raise UsageError(f"{name}: {len(found)} for {count} sentences; expected one a sentence")
    return found


def terms_line(phrases: Any) -> str:
    """Words and phrases as a line to translate carries them.

    Raises:
        UsageError: if one is no text, or holds a tab.
    """
    found = sentences(phrases, "terms")
    for phrase in found:
        if "\t" in phrase:
            raise UsageError(f"terms: {phrase!r} holds a tab")
    return "\t".join(found)
