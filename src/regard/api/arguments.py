"""Arguments of the Python API: texts and files, and the prefixes, terms and fertilities of each sentence."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.analysis.inputs import ParallelText
from regard.data.fertility import Bounds
from regard.data.text import TextSide
from regard.errors import DataError, UsageError
from regard.generation.analysis import tokens_to_words
from regard.generation.base import BaseTranslator
from regard.generation.lines import Line, user_fertilities
from regard.text.corpus import clean_line, read_lines
from regard.text.whitespace import normalize_whitespace

__all__ = [
    "TextSource",
    "WordFertilities",
    "as_list",
    "as_texts",
    "check_num_lines",
    "check_texts",
    "input_lines",
    "parallel_text",
    "read_parallel",
    "read_texts",
    "source_name",
]

TextSource = Path | str | Iterable[str]
"""A text: a file with one sentence per line, or the sentences."""
FertilityBounds = float | tuple[float | None, float | None]
"""Maximum attention that a word may receive, or (minimum, maximum), where None keeps the default."""
WordFertilities = Mapping[str, FertilityBounds] | Sequence[FertilityBounds | None]
"""Fertilities of words by spelling, or one for each word of a text (None keeps the model's own)."""


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
    """Return the items as a list of strings that can be encoded as UTF-8, cleaned as lines of a file are.

    Raises:
        UsageError: if an item is not such a string.
    """
    texts = as_list(given, name)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{name}: expected a string, got {text!r}")
        # A lone surrogate is possible in a Python string, but no file or response can contain it.
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name}: character {error.start + 1} of {text!r} is not valid Unicode"
            ) from None
    return [clean_line(text)[0] for text in texts]


def as_texts(given: Iterable[Any], name: str) -> list[str]:
    """Return a list of strings from strings or from objects with a `text` attribute.

    Raises:
        UsageError: if the argument is a single string, or contains other items.
    """
    # A string is an iterable of strings, so each character would become a sentence.
    if isinstance(given, str):
        raise UsageError(f"{name}: expected a list of sentences, got a single string")
    return check_texts([getattr(line, "text", line) for line in as_list(given, name)], name)


def read_texts(given: Path | str | Iterable[Any], name: str) -> list[str]:
    """Return the lines of a file, or a list of strings as `as_texts` does.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if the list contains other items than texts.
    """
    return list(read_lines(Path(given))) if isinstance(given, str | Path) else as_texts(given, name)


def source_name(given: Any, name: str) -> str:
    """Return the name of a text for messages: its file, or else the name of the argument."""
    return str(given) if isinstance(given, str | Path) else name


def check_num_lines(name: str, count: int, other: str, expected: int) -> None:
    """Check that two parallel texts have the same number of lines.

    Raises:
        DataError: if the numbers differ.
    """
    if count != expected:
        raise DataError(
            f"{name} has {count} lines but {other} has {expected}: parallel texts must have the same number "
            "of lines"
        )


def parallel_text(sources: TextSource, references: TextSource) -> ParallelText:
    """Return the text of two files, or of lists of sentences.

    Raises:
        DataError: if a file cannot be read, a side contains no text, or the numbers of lines differ.
        UsageError: if a list contains other items than texts.
    """
    if isinstance(sources, Path | str) and isinstance(references, Path | str):
        return ParallelText.read(sources, references)
    return ParallelText(
        tuple(read_texts(sources, "sources")),
        tuple(read_texts(references, "references")),
        str(sources) if isinstance(sources, Path | str) else None,
        str(references) if isinstance(references, Path | str) else None,
    )


def input_lines(
    translator: BaseTranslator, texts: Sequence[str], single: bool, fertilities: Any, prefix: Any, terms: Any
) -> list[Line]:
    """Return the sentences with their prefixes, fertilities and terms; see `Model.translate`.

    Args:
        translator: The translator of the sentences.
        texts: The sentences.
        single: Whether the other arguments are values for a single sentence.
        fertilities: Fertilities of the words.
        prefix: Text that a translation must start with.
        terms: Words and phrases that a translation must contain.

    Raises:
        UsageError: if an argument does not match the sentences, or the translator does not support it.
    """
    if fertilities is not None:
        translator.require("fertility", "fertilities")
    # A string would become a list of terms of one character each.
    if isinstance(terms, str):
        raise UsageError(f"terms={terms!r}: expected a list of words and phrases, not a single string")
    terms = as_list(terms, "terms")
    # A dict has words as keys, so it can apply to all sentences. A list has the words of one sentence.
    shared = single or fertilities is None or isinstance(fertilities, Mapping)
    all_fertilities = _broadcast(fertilities, shared, len(texts), "fertilities")
    prefixes = _broadcast(prefix, single or isinstance(prefix, str), len(texts), "prefix")
    # `all` is true for the default, an empty list, which therefore applies to all sentences.
    all_terms = _broadcast(terms, single or all(isinstance(term, str) for term in terms), len(texts), "terms")
    return [
        Line(
            number,
            text,
            check_texts([prefixes[number - 1]], "prefix")[0],
            _token_bounds(text, translator.text.source, all_fertilities[number - 1]),
            _terms(all_terms[number - 1]),
        )
        for number, text in enumerate(texts, 1)
    ]


def _broadcast(value: Any, shared: bool, count: int, name: str) -> list[Any]:
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


def _terms(terms: Any) -> tuple[str, ...]:
    """Return required terms.

    Raises:
        UsageError: if a term is not a string.
    """
    return tuple(filter(None, map(normalize_whitespace, check_texts(terms, "terms"))))


def _token_bounds(text: str, side: TextSide, fertilities: WordFertilities | None) -> Bounds | None:
    """Return the minimum and the maximum attention of each token of a text; None if there are none.

    Args:
        text: The text.
        side: Text processing of the source.
        fertilities: Fertilities of its words, applied to each of their subword tokens.

    Raises:
        UsageError: if they do not match the text or are not valid fertilities.
    """
    # The translator reports a text with the wrong format as an error of this sentence alone.
    if not fertilities or side.format_error(text):
        return None
    tokens = side.tokenize(text)
    if isinstance(fertilities, Mapping):
        by_word = {word: _bounds(value, f"fertilities[{word!r}]") for word, value in fertilities.items()}
        return user_fertilities(tokens, side, None, by_word, "fertilities")
    if isinstance(fertilities, str) or not isinstance(fertilities, Sequence):
        raise UsageError(
            f"fertilities={fertilities!r}: expected a dict from words to numbers, or one number per word"
        )
    words = tokens_to_words(side, tokens)
    if len(fertilities) != len(words):
        raise UsageError(
            f"fertilities: {len(fertilities)} for a text of {len(words)} words "
            f"({', '.join(map(repr, words))}); expected one per word"
        )
    bounds = [_bounds(value, f"fertilities[{index}]") for index, value in enumerate(fertilities)]
    return tuple(bounds[word] for word in side.word_ids(tokens))


def _bounds(value: Any, name: str) -> tuple[float, float]:
    """Return minimum and maximum. The maximum is NaN if it is not given."""
    minimum, maximum = value if isinstance(value, tuple | list) and len(value) == 2 else (None, value)
    low = 0.0 if minimum is None else _number(minimum, name)
    high = math.nan if maximum is None else _number(maximum, name)
    # A missing maximum is NaN, and a comparison with NaN is false.
    if low > high:
        raise UsageError(
            f"{name}: the minimum {low:g} is above the maximum {high:g}; expected (minimum, maximum)"
        )
    return low, high


def _number(value: Any, name: str) -> float:
    # `bool` is a subclass of `int`. The negated comparison also rejects NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}: {value!r}; expected a number of at least 0, or (minimum, maximum)")
    return float(value)


def read_parallel(
    first: TextSource, second: TextSource, names: tuple[str, str]
) -> tuple[list[str], list[str]]:
    """Return the lines of two texts.

    Args:
        first: The source lines, or a file.
        second: Their translations, or a file.
        names: Names of lists in messages. A file has its own name.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
    """
    sides = read_texts(first, names[0]), read_texts(second, names[1])
    check_num_lines(source_name(first, names[0]), len(sides[0]), source_name(second, names[1]), len(sides[1]))
    return sides
