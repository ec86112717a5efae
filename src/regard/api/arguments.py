"""Validation of arguments of the Python API: texts, and values for one sentence, for all or for each."""

from collections.abc import Iterable
from typing import Any

from regard.errors import UsageError

__all__ = ["as_list", "as_texts", "broadcast", "check_texts", "join_terms"]


def as_list(given: Any, name: str) -> list[Any]:
    """Return the items of an iterable as a list.

    Raises:
        UsageError: if the argument is not iterable.
    """
    try:
        return list(given)
    except TypeError:
        raise UsageError(f"{name}: expected a list, got {given!r}") from None


def check_texts(given: Any, name: str) -> list[str]:
    """Return the items as a list of strings that can be encoded as UTF-8.

    Raises:
        UsageError: if an item is not such a string.
    """
    texts = as_list(given, name)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{name}: expected a string, got {text!r}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name}: character {error.start + 1} of {text!r} is not valid Unicode"
            ) from None
    return texts


def as_texts(given: Iterable[Any], name: str) -> list[str]:
    """Return a list of strings from strings or from objects with a `text` attribute.

    Raises:
        UsageError: if the argument is a single string, or contains other items.
    """
    if isinstance(given, str):
        raise UsageError(f"{name}: expected a list of sentences, got a single string")
    return check_texts([getattr(line, "text", line) for line in as_list(given, name)], name)


def broadcast(value: Any, shared: bool, count: int, name: str) -> list[Any]:
    """Return one value for each sentence.

    Args:
        value: A single value, or one value per sentence.
        shared: Whether `value` is a single value for all sentences.
        count: Number of sentences.
        name: Name of the argument, for messages.

    Raises:
        UsageError: if the number of values differs from the number of sentences.
    """
    if shared:
        return [value] * count
    found = as_list(value, name)
    if len(found) != count:
        raise UsageError(f"{name}: {len(found)} for {count} sentences; expected one per sentence")
    return found


def join_terms(terms: Any) -> str:
    """Return required terms as a tab-separated line.

    Raises:
        UsageError: if a term is not a string or contains a tab.
    """
    found = check_texts(terms, "terms")
    for term in found:
        if "\t" in term:
            raise UsageError(f"terms: {term!r} contains a tab; pass each term as an item of its own")
    return "\t".join(found)
