"""Fertilities of source words: `regard.fertilities`.

counts = regard.fertilities("train.de", "train.en")
counts[0]  # one number per word of the first sentence
counts.to_pandas()  # one row per word: maximum, mean and count
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from regard.alignment import Corpus, TrainingSetup
from regard.alignment.base import DEFAULT_ALIGNER
from regard.alignment.word_aligner import align_fertilities
from regard.analysis.inputs import read_links
from regard.api.alignment import aligner_config
from regard.api.arguments import (
    LinkSource,
    NamedText,
    TextSource,
    check_rows,
    read_parallel,
)
from regard.config.results import SequenceResult
from regard.errors import UsageError
from regard.text.corpus import check_num_lines
from regard.text.links import parse_links
from regard.text.words import split_whitespace

_Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True, repr=False)
class SourceFertilities(SequenceResult[np.ndarray]):
    """The fertilities of a text: a sequence with an array [S] per sentence, one number per source word.

    Counted fertilities are numbers of linked target words (int64), of which 0 is possible. Predicted ones are
    expected values of at least 1 (float64).

    Attributes:
        values: The fertility of each word.
        words: The source words of each sentence.
    """

    schema = "fertilities"
    values: tuple[np.ndarray, ...]
    words: tuple[tuple[str, ...], ...]

    @property
    def frequencies(self) -> dict[int, int] | None:
        """Return the number of words by fertility, in ascending order. None for predicted fertilities."""
        if any(values.dtype.kind == "f" for values in self.values):
            return None
        return dict(sorted(Counter(value for values in self.values for value in values.tolist()).items()))

    def lines(self, slack: float = 0.0) -> Iterator[str]:
        """Yield one line per sentence in the format of `regard translate --fertilities`.

        Args:
            slack: Value added to every fertility, after those below 1 are replaced by 1: a fertility of 0
                would forbid all attention to the word.
        """
        for values in self.values:
            yield " ".join(f"{max(value, 1) + slack:g}" for value in values.tolist())

    def to_data(self) -> dict[str, Any]:
        """Return the numbers of sentences and words, the mean, the frequencies, and all fertilities."""
        counts, num_words = self.frequencies, sum(map(len, self.values))
        return {
            "num_sentences": len(self),
            "num_words": num_words,
            "mean": float(sum(values.sum() for values in self.values) / max(1, num_words)),
            "frequencies": None if counts is None else {str(value): count for value, count in counts.items()},
            "fertilities": [values.tolist() for values in self.values],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per word: its maximum (at least 1), mean and count, by descending count."""
        by_word: dict[str, list[float]] = {}
        for words, values in zip(self.words, self.values, strict=True):
            for word, value in zip(words, values.tolist(), strict=True):
                by_word.setdefault(word, []).append(value)
        rows = [
            {
                "word": word,
                "maximum": max(1, *values),
                "mean": sum(values) / len(values),
                "count": len(values),
            }
            for word, values in by_word.items()
        ]
        # Equally frequent words are sorted, so their order does not depend on that of the text.
        return sorted(rows, key=lambda row: (-row["count"], row["word"]))


def fertilities(
    sources: TextSource,
    targets: TextSource | None = None,
    kind: str = DEFAULT_ALIGNER,
    *,
    links: LinkSource | None = None,
    predictor: Path | str | None = None,
    model: Path | str | None = None,
    **options: Any,
) -> SourceFertilities:
    """Return the fertility of each source word, as `regard fertility` does.

    It is the number of target words that are linked to the word. Without `links`, an aligner is trained on
    the sentence pairs. Its links are those of the forward direction, which links each target word to at most
    one source word.

    Args:
        sources: Source text, as a list or a file.
        targets: Its translations, one per source sentence. Not needed with `links` or `predictor`.
        kind: The aligner.
        links: The word links of each sentence (0-0 1-2), instead of translations and an aligner.
        predictor: Directory `predictor` of a model with predicted fertilities, whose expected values are
            returned.
        model: Model directory whose tokenizers split the sentences. Default: words are separated by ASCII
            white space.
        options: The arguments of `Aligner.train` for the aligner: `seed`, `num_threads`...

    Raises:
        UsageError: if not exactly one of `targets`, `links` and `predictor` is given, `links` are given with
            `model`, or an option does not apply.
        DataError: if a file cannot be read, the numbers of sentences differ, a sentence that is aligned is
            empty, or a link points beyond its sentence.
        CheckpointError: if the weights of the predictor are missing or damaged.
    """
    if sum(argument is not None for argument in (targets, links, predictor)) != 1:
        raise UsageError(
            "give exactly one of the translations, word links (--links) and a predictor (--predictor)"
        )
    if targets is None and (options or kind != DEFAULT_ALIGNER):
        raise UsageError(f"{min(options, default='kind')} has no effect without targets, which are aligned")
    tokenize = _tokenizers(model, links is not None)
    if predictor is not None:
        from regard.runs.fertility_predictor import FertilityPredictor

        words = [tokenize[0](line) for line in NamedText.read(sources, "sources").lines]
        expected = FertilityPredictor.load(predictor).expected_fertilities(words)
        values = (np.array(fertilities, dtype=np.float64) for fertilities in expected)
        return SourceFertilities(tuple(values), tuple(map(tuple, words)))
    if links is not None:
        return _count_links(sources, links)
    return _count_aligned(read_parallel(sources, targets), tokenize, kind, **options)


def _tokenizers(model: Path | str | None, has_links: bool) -> tuple[_Tokenize, _Tokenize]:
    """Return the tokenizers of source and target sentences."""
    if model is None:
        return split_whitespace, split_whitespace
    if has_links:
        raise UsageError("links refer to words separated by white space, so they cannot be used with a model")
    from regard.data.text import TextProcessor

    text = TextProcessor.load(Path(model))
    return text.source.tokenize, text.target.tokenize


def _count_links(sources: TextSource, links: LinkSource) -> SourceFertilities:
    """Return the number of links of each source word."""
    text = NamedText.read(sources, "sources")
    words = [split_whitespace(line) for line in text.lines]
    link_sets, name = read_links(links, "links", parse_links)
    check_num_lines(name, len(link_sets), text.name, len(words))
    check_rows(link_sets, {"source": list(map(len, words))}, name)
    # Without `minlength`, words without links at the end of a sentence would be missing.
    values = (
        np.bincount(np.array([source for source, _ in link_set], dtype=np.int64), minlength=len(sentence))
        for link_set, sentence in zip(link_sets, words, strict=True)
    )
    return SourceFertilities(tuple(values), tuple(map(tuple, words)))


def _count_aligned(
    sides: tuple[NamedText, NamedText],
    tokenize: tuple[_Tokenize, _Tokenize],
    kind: str,
    lowercase: bool = False,
    seed: int = 1,
    num_threads: int = 0,
    **options: Any,
) -> SourceFertilities:
    """Return the fertilities of a text by an aligner that is trained on it."""
    config = aligner_config(kind, options)
    folded = words = [
        [split(line) for line in side.lines] for split, side in zip(tokenize, sides, strict=True)
    ]
    if lowercase:
        folded = [[[word.lower() for word in sentence] for sentence in side] for side in words]
    corpus = Corpus.from_tokens(zip(*folded, strict=True), names=(sides[0].name, sides[1].name))
    (counts,) = align_fertilities([corpus], TrainingSetup(num_threads=num_threads, seed=seed), config)
    # The counts of all sentences are in one array, which the offsets divide.
    values = (counts[i:j] for i, j in pairwise(corpus.source.offsets.tolist()))
    return SourceFertilities(tuple(values), tuple(map(tuple, words[0])))
