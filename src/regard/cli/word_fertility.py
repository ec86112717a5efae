"""Options of `regard translate` that concern words: `--word-fertility`, and the share of unknown tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from regard.cli.progress import print_message
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data.text import TextProcessor
    from regard.generation.lines import LineResult

__all__ = ["parse_word_fertilities", "report_missing_words", "report_unknown_tokens"]


def parse_word_fertilities(options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the minimum and maximum attention of words, parsed from WORD=MAX or WORD=MIN:MAX.

    Raises:
        UsageError: If an option does not have this form.
        DataError: If the numbers of an option are not valid fertilities.
    """
    from regard.data.fertility import parse_bounds

    found: dict[str, tuple[float, float]] = {}
    for option in options:
        # Split at the last "=", because the word itself may contain one.
        word, equals, bounds = option.rpartition("=")
        if not equals or not word:
            raise UsageError(f"--word-fertility {option!r}: expected WORD=MAX or WORD=MIN:MAX")
        found[word] = parse_bounds(bounds, f"--word-fertility {option!r}")
    return found


def report_missing_words(
    results: "Iterator[LineResult]", words: Iterable[str], text: "TextProcessor"
) -> "Iterator[LineResult]":
    """Yield the results, then report the words of `--word-fertility` that did not occur in the text.

    Args:
        results: The results.
        words: The words.
        text: Text processing of the translator.
    """
    from regard.generation.analysis import tokens_to_words

    side, left = text.source, set(words)
    sinks = len(text.sink_tokens)
    for result in results:
        if left and result.translations:
            # The sink is an artificial token and not a word of the text.
            tokens = result.source_tokens[: len(result.source_tokens) - sinks]
            left.difference_update(tokens_to_words(side, tokens))
        yield result
    for word in words:
        if word in left:
            print_message(f"--word-fertility {word}: this word does not occur in the text")


def report_unknown_tokens(results: "Iterator[LineResult]") -> "Iterator[LineResult]":
    """Yield the results, then report the share of unknown tokens in the best translations."""
    from regard.data.vocabulary import UNK

    tokens = unknown = 0
    for result in results:
        for best in result.translations[:1]:
            tokens += len(best.hypothesis.tokens)
            unknown += best.hypothesis.tokens.count(UNK)
        yield result
    if tokens:
        print_message(
            f"{unknown:,} of {tokens:,} generated tokens are unknown ({100 * unknown / tokens:.2f} %)"
        )
