"""Synthetic coverage errors in a text, with exact labels: `regard.corrupt`.

made = regard.corrupt("test.de", "test.en", kinds=["deletion"], rate=0.5)
regard.check("test.de", made.translations, checker="checker").evaluate(made.labels)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise, repeat
from pathlib import Path
from typing import Any, ClassVar

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.api.arguments import TextSource, read_parallel
from regard.config import from_dict
from regard.config.results import Result
from regard.extensions.check.api import CoverageModel
from regard.extensions.check.base import CoverageError, SentenceError, WordPair, blocks, split_pairs
from regard.extensions.check.corruptions import (
    CORRUPTIONS,
    CorruptedPair,
    Corruption,
    CorruptionConfig,
    corrupt_pairs,
)
from regard.extensions.check.evaluation import LineLabels
from regard.extensions.check.posteriors import TextAligner, TextWords
from regard.text.formats.base import FileOptions
from regard.text.links import Links
from regard.text.words import split_line, word_spans

_LINKED: tuple[Corruption, ...] = ("deletion", "truncation", "replacement")
_UNSPACED_BEFORE = frozenset(".,;:!?)]}%…»”’'")
_UNSPACED_AFTER = frozenset("([{«„“'’")


@dataclass(frozen=True)
class CorruptedText(Result):
    """A text, some of whose translations have one synthetic error.

    Attributes:
        sources: The source sentences, which stay as they are.
        translations: The translations, as text.
        labels: The labels of each sentence, for `CoverageCheck.evaluate`.
        kinds: The kind of error of each translation, None for an unchanged one.
    """

    schema: ClassVar[str] = "corrupted_text"

    sources: tuple[str, ...]
    translations: tuple[str, ...]
    labels: tuple[LineLabels, ...]
    kinds: tuple[Corruption | None, ...]

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.translations)

    def to_data(self) -> dict[str, Any]:
        """Return the texts, kinds and labels of each sentence."""
        return {
            "sentences": [row | label.to_data() for row, label in zip(self.rows(), self.labels, strict=True)]
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per sentence: line, kind of error, and the texts."""
        return [
            {"line": line, "kind": kind, "source": source, "translation": translation}
            for line, (kind, source, translation) in enumerate(
                zip(self.kinds, self.sources, self.translations, strict=True), 1
            )
        ]

    def __repr__(self) -> str:
        """Return the number of sentences and of errors."""
        return f"CorruptedText({len(self)} sentences, {sum(map(bool, self.kinds))} with an error)"


def corrupt(
    sources: TextSource,
    translations: TextSource | None = None,
    kinds: Iterable[str] = CORRUPTIONS,
    *,
    rate: float = 0.5,
    max_span: int = 5,
    seed: int = 1,
    file_options: FileOptions | None = None,
    checker: CoverageModel | WordAligner | Path | str | None = None,
) -> CorruptedText:
    """Make synthetic coverage errors in good translations.

    Where words are deleted, word links show what source words lose their translation.

    Args:
        sources: Source text, plain or compressed, or a file with both sides.
        translations: Translations, one line per source line.
        kinds: Kinds of errors: deletion, truncation, insertion, replacement, repetition and unrelated.
        rate: Share of the sentences that get an error, from 0 to 1.
        max_span: Maximum number of words in a span.
        seed: Random seed.
        file_options: Format of a file with both sides.
        checker: A model of good translations or its directory (`regard check --save-checker`), or a word
            aligner without case, for the word links. Default: an aligner that is trained on the text itself.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
        ConfigError: if a kind is unknown, or `rate` or `max_span` is out of range.
    """
    parallel = read_parallel(sources, translations, ("sources", "translations"), file_options)
    lines = parallel[0].lines, parallel[1].lines
    pairs = split_pairs(*lines)
    chosen: list[Any] = [kinds] if isinstance(kinds, str) else list(kinds)
    settings = {"kinds": chosen, "rate": rate, "max_span": max_span, "seed": seed}
    config = from_dict(CorruptionConfig, settings, origin="corrupt")
    linked = not set(config.kinds).isdisjoint(_LINKED)
    links: Sequence[Links] = _find_links(pairs, checker, seed) if linked else [frozenset()] * len(pairs)
    corrupted_pairs = corrupt_pairs(pairs, links, config)
    # An unrelated translation is the whole line of another pair.
    whole = {pair.target: line for pair, line in zip(pairs, lines[1], strict=True)}
    texts = tuple(map(_render, lines[1], pairs, corrupted_pairs, repeat(whole)))
    labels = tuple(map(_labels, count(1), corrupted_pairs, lines[0], texts))
    return CorruptedText(tuple(lines[0]), texts, labels, tuple(each.kind for each in corrupted_pairs))


def _find_links(
    pairs: Sequence[WordPair], model: CoverageModel | WordAligner | Path | str | None, seed: int
) -> list[Links]:
    if isinstance(model, Path | str):
        model = CoverageModel.load(model)
    if model is None:
        usable = (pair.folded for pair in pairs if pair.source and pair.target)
        corpus = Corpus.from_tokens(usable, names=("sources", "translations"))
        model = train_both(corpus, default_config(DEFAULT_ALIGNER), TrainingSetup(seed=seed), lowercase=True)
    aligner = model.model.aligner if isinstance(model, CoverageModel) else TextAligner(model)
    tables = (aligner.posteriors(TextWords.of(block)) for block in blocks(pairs))
    return [links for table in tables for links in table.best_links()]


def _render(line: str, pair: WordPair, made: CorruptedPair, whole: dict[tuple[str, ...], str]) -> str:
    """Return the text of a corrupted translation, with the spacing of the original as far as it is kept.

    Args:
        line: The original translation.
        pair: The original words.
        made: The words with an error.
        whole: Texts of all translations by their words.
    """
    words = made.pair.target
    if made.kind is None:
        return line
    if made.kind == "unrelated":
        return whole[words]
    # The original word of each word; a new word has none.
    places = _original_places(pair.target, made)
    spans = word_spans(line)
    text = words[0] if words else ""
    for (left, right), (before, word) in zip(pairwise(places), pairwise(words), strict=True):
        text += _separator(line, spans, (left, right), (before, word)) + word
    # A text that would be split into other words could not have exact labels.
    return text if split_line(text) == words else " ".join(words)


def _original_places(original: Sequence[str], made: CorruptedPair) -> list[int | None]:
    """Return for each word of a corrupted translation its place in the original, None for a new word."""
    new = made.added | made.repeated
    places: list[int | None] = []
    place = 0
    for position, word in enumerate(made.pair.target):
        if position in new:
            places.append(None)
            continue
        # Deleted words are skipped. The words that are kept are in order, so this always succeeds.
        while original[place] != word:
            place += 1
        places.append(place)
        place += 1
    return places


def _separator(
    line: str, spans: Sequence[tuple[int, int]], places: tuple[int | None, int | None], words: tuple[str, str]
) -> str:
    """Return the text between two neighboring words."""
    left, right = places
    if left is not None and right is not None and right == left + 1:
        return line[spans[left][1] : spans[right][0]]
    # The words are joined as in most languages, because the original has no example.
    before, word = words
    if word in _UNSPACED_BEFORE or before in _UNSPACED_AFTER or "-" in words:
        return ""
    # A script without spaces has none in the whole line.
    return " " if " " in line or split_line(before + word) != (before, word) else ""


def _labels(line: int, made: CorruptedPair, source: str, translation: str) -> LineLabels:
    """Return the labels of a sentence as spans of characters."""
    positions: dict[CoverageError, frozenset[int]] = {
        "omission": made.omitted,
        "addition": made.added,
        "repetition": made.repeated,
    }
    texts = {"omission": source, "addition": translation, "repetition": translation}
    if made.kind in ("unrelated", "replacement"):
        # Omissions and additions are errors of translations that are related to the source, and a replaced
        # span is a wrong translation rather than none.
        positions = {"repetition": made.repeated}
    errors: dict[SentenceError, bool] = {error: bool(indices) for error, indices in positions.items()}
    return LineLabels(
        line,
        {**errors, "unrelated": made.kind == "unrelated"},
        {error: _merged(word_spans(texts[error]), indices) for error, indices in positions.items()},
    )


def _merged(spans: Sequence[tuple[int, int]], positions: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the spans of characters of words, with neighboring words in one span."""
    merged: list[tuple[int, int]] = []
    previous = -2
    for position in sorted(positions):
        first, last = spans[position]
        if position == previous + 1:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
        previous = position
    return tuple(merged)
