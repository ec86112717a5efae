"""Scores of systems by source length: Indurthi et al. (2019), Table 2 and Figure 2.

`regard.metrics.by_length` defines the buckets and their scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.alignment import WordAligner
from regard.analysis.inputs import Linker, ParallelText, Progress, System, line_words, no_progress
from regard.config.results import Result
from regard.data.text import TextProcessor
from regard.errors import DataError, UsageError
from regard.generation.lines import enumerate_lines
from regard.metrics.base import METRICS, MetricInput, SentenceCounts
from regard.metrics.by_length import Bucket, LengthScores, bucket_by_length, count_lengths, score_by_length
from regard.metrics.translation import check_tokenizer
from regard.plot.analyses import length_chart
from regard.plot.figure import Figure
from regard.text.links import Links


@dataclass(frozen=True)
class LengthOptions:
    """The options of an analysis of scores by length.

    Attributes:
        aligner: A word aligner or its directory, needed for DROP. None computes no DROP.
        bucket_width: Width of a length bucket in words.
        tokenize: Tokenizer for BLEU, REP and lengths.
        lowercase: Whether to ignore case.
    """

    aligner: Path | str | WordAligner | None = None
    bucket_width: int = 10
    tokenize: str = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        """Reject an unknown tokenizer and a width below 1."""
        check_tokenizer(self.tokenize)
        if self.bucket_width < 1:
            raise UsageError(f"--bucket-width {self.bucket_width}: expected at least 1")


@dataclass(frozen=True)
class SystemLengths:
    """The scores of one system.

    Attributes:
        paths: The model directories, or the file of translations.
        scores: Scores by metric: `bleu`, `rep` and, with an aligner, `drop`.
        translations: The translation of each line; empty for a line that is too long.
        too_long: Numbers of the lines that were too long for the model, from 1.
    """

    paths: tuple[str, ...]
    scores: Mapping[str, LengthScores]
    translations: tuple[str, ...]
    too_long: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """Return the values for JSON, with one entry per metric."""
        return {
            "paths": self.paths,
            "too_long": self.too_long,
            **self.scores,
            "translations": self.translations,
        }


@dataclass(frozen=True)
class LengthAnalysis(Result):
    """The scores of one or more systems in buckets of source length.

    Attributes:
        systems: The scores of each system, by name.
        buckets: The buckets.
        lengths: Number of words of each source line.
        source: The file of the source lines. None for a text from Python.
        reference: The file of the references. None for a text from Python.
        aligner: Directory of the word aligner. None without an aligner, or for one from Python.
        tokenize: Tokenizer for BLEU, REP and lengths.
        lowercase: Whether case was ignored.
        notes: Notes for the reader, one sentence each.
    """

    schema = "length_analysis"
    systems: Mapping[str, SystemLengths]
    buckets: tuple[Bucket, ...]
    lengths: tuple[int, ...]
    source: str | None
    reference: str | None
    aligner: str | None
    tokenize: str
    lowercase: bool
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per system, metric and bucket; the last bucket is `all`."""
        rows = []
        for name, system in self.systems.items():
            for scores in system.scores.values():
                labeled = [
                    (bucket.label, len(bucket.sentence_ids), score)
                    for bucket, score in zip(self.buckets, scores.buckets, strict=True)
                ]
                for label, count, score in [*labeled, ("all", len(self.lengths), scores.total)]:
                    row = {"system": name, "metric": scores.name, "words": label, "sentences": count}
                    low, high = (None, None) if score is None or score.interval is None else score.interval
                    difference = None if score is None or score.difference is None else score.difference.value
                    row |= {"score": None if score is None else score.value, "low": low, "high": high}
                    row |= {"difference": difference, "p_value": None if score is None else score.p_value}
                    rows.append(row)
        return rows

    def plot(self) -> Figure:
        """Return the figure of the scores by source length (Indurthi et al. (2019), Figure 2)."""
        return length_chart(
            {name: system.scores for name, system in self.systems.items()},
            [bucket.label for bucket in self.buckets],
            [len(bucket.sentence_ids) for bucket in self.buckets],
        )

    def __repr__(self) -> str:
        """Return the scores of all sentences."""
        parts = (
            f"{name}: "
            f"{', '.join(f'{scores.name} {scores.total.value:.2f}' for scores in system.scores.values())}"
            for name, system in self.systems.items()
        )
        return f"LengthAnalysis({'; '.join(parts)})"


def analyze_length(
    systems: Iterable[System],
    text: ParallelText,
    options: LengthOptions = LengthOptions(),
    num_threads: int | None = None,
    progress: Progress = no_progress,
) -> LengthAnalysis:
    """Translate a text with each system and score it in buckets of source length.

    Args:
        systems: The systems, which return one translation per line. The first one is the baseline of the
            differences. They may be loaded while they are iterated over; the aligner is loaded first.
        text: The text.
        options: The options.
        num_threads: Number of threads of the aligner. None uses all processors.
        progress: Progress display.

    Raises:
        DataError: if all lines are too long for a system.
    """
    lengths = count_lengths(text.sources, options.tokenize)
    buckets = bucket_by_length(lengths, options.bucket_width)
    # The aligner is loaded before the models, so that a wrong directory is reported at once.
    linker = None
    if options.aligner is not None:
        linker = Linker.load(options.aligner, options.lowercase, num_threads)
    loaded = list(systems)
    translated = [_translate(system, text, progress) for system in loaded]
    # Files of translations have the tokenizers of the first model, if there is one.
    tokenizers = loaded[0].translator.text
    links, notes = _links(linker, tokenizers, text, [outputs for outputs, _ in translated])
    counts: list[dict[str, SentenceCounts]] = []
    for (outputs, _), system_links in zip(translated, links, strict=True):
        data = MetricInput(outputs, [text.references], options.tokenize, options.lowercase, system_links)
        names = ("bleu", "rep") if system_links is None else ("bleu", "rep", "drop")
        counts.append({name: metric.count(data) for name in names if (metric := METRICS.get(name))})
    results: dict[str, SystemLengths] = {}
    for system, system_counts, (outputs, too_long) in zip(loaded, counts, translated, strict=True):
        # Each system but the first is compared with the first on the same resampled sentences.
        first = None if system_counts is counts[0] else counts[0]
        scores = {
            metric: score_by_length(metric_counts, buckets, None if first is None else first[metric])
            for metric, metric_counts in system_counts.items()
        }
        results[system.name] = SystemLengths(system.paths, scores, outputs, too_long)
        if too_long:
            how_many = f"{len(too_long)} of {len(text)} lines are too long for the model"
            notes = (*notes, f"{system.name}: {how_many} and were not translated")
    return LengthAnalysis(
        systems=results,
        buckets=tuple(buckets),
        lengths=tuple(lengths),
        source=text.source_path,
        reference=text.reference_path,
        aligner=None if linker is None else linker.path,
        tokenize=options.tokenize,
        lowercase=options.lowercase,
        notes=notes,
    )


def _translate(
    system: System, text: ParallelText, progress: Progress
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the translations, and the numbers of the lines that were too long, from 1."""
    results = list(
        progress(system.translator.translate(enumerate_lines(text.sources)), system.name, len(text))
    )
    # A model may also produce an empty translation, so the error and not the text marks these lines.
    too_long = tuple(number for number, result in enumerate(results, 1) if result.error is not None)
    if len(too_long) == len(results):
        raise DataError(f"all lines are too long for {system.name}: nothing was translated")
    return tuple(result.text for result in results), too_long


def _links(
    linker: Linker | None, tokenizers: TextProcessor, text: ParallelText, outputs: Sequence[Sequence[str]]
) -> tuple[list[tuple[list[Links], list[Links]] | None], tuple[str, ...]]:
    """Return the links of the sources with the references and with each system's translations, and notes.

    All texts are split into words by the same tokenizers, so that DROP has the same source words for all.
    """
    if linker is None:
        return [None] * len(outputs), ()
    sources = [line_words(line, tokenizers.source) for line in text.sources]
    references = [line_words(line, tokenizers.target) for line in text.references]
    wanted = list(zip(sources, references, strict=True))
    # The links of the references are the same for all systems.
    links = linker.align(wanted)
    system_links: list[tuple[list[Links], list[Links]] | None] = []
    for lines in outputs:
        words = (line_words(line, tokenizers.target) for line in lines)
        system_links.append((links, linker.align(list(zip(sources, words, strict=True)))))
    return system_links, linker.unknown_word_notes(wanted)
