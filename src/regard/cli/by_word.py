"""`--word-fertility`: what words may receive wherever they stand."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from regard.cli.progress import say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.decoding.translate import LineResult, Translator

__all__ = ["told_unseen", "with_unknown_share", "word_fertilities"]


def word_fertilities(options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The least and the most attention of words, from WORD=MOST, WORD=LEAST:MOST.

    Raises:
        UsageError: if an option is none of these.
        DataError: if its numbers are no fertility.
    """
    from regard.data.fertility import read_bounds

    found: dict[str, tuple[float, float]] = {}
    for option in options:
        word, equals, bounds = option.rpartition("=")
        if not equals or not word:
            raise UsageError(f"--word-fertility {option!r}: expected WORD=MOST or WORD=LEAST:MOST")
        found[word] = read_bounds(bounds, f"--word-fertility {option!r}")
    return found


def told_unseen(results: "Iterator[LineResult]", translator: "Translator") -> "Iterator[LineResult]":
    """The results; at the end, which words with fertilities of their own stood nowhere."""
    from regard.decoding.analysis import words_of

    side, left = translator.text.source, set(translator.fertilities)
    sinks = len(translator.text.sink)
    for result in results:
        if left and result.translations:
            tokens = result.source_tokens[: len(result.source_tokens) - sinks]
            left.difference_update(words_of(side, tokens))
        yield result
    for word in translator.fertilities:
        if word in left:
            say(f"--word-fertility {word}: no such word in the text")


def with_unknown_share(results: "Iterator[LineResult]") -> "Iterator[LineResult]":
    """Yield the results; then report the share of unknown tokens in the best translations."""
    from regard.data.vocabulary import UNK

    tokens = unknown = 0
    for result in results:
        for best in result.translations[:1]:
            tokens += len(best.hypothesis.tokens)
            unknown += best.hypothesis.tokens.count(UNK)
        yield result
    if tokens:
        say(f"{unknown:,} of {tokens:,} generated tokens are unknown ({100 * unknown / tokens:.2f} %)")
