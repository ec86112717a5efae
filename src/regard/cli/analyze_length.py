"""`regard analyze length`: scores of one or more systems in buckets of source length."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysis_input import AnalysisInput
from regard.cli.linker import Linker
from regard.cli.output import print_message, track
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.links import Links
    from regard.data.text import TextProcessor, TextSide
    from regard.generation.base import BaseTranslator
    from regard.metrics.by_length import Bucket, BucketScore, LengthScores
    from regard.metrics.counts import SentenceCounts

__all__ = ["LengthOptions", "analyze_length"]


@dataclass(frozen=True)
class LengthOptions:
    """The options of `regard analyze length`.

    Attributes:
        aligner_dir: Directory of a word aligner. None computes no DROP.
        figures_dir: Directory for the figure. None plots no figure.
        names: Display names of the systems, separated by commas. None uses the names of the directories and
            files.
        bucket_width: Width of a length bucket in words.
        tokenize: Tokenizer for BLEU, REP and lengths.
        lowercase: Whether to ignore case.
        generation: Search settings, as arguments of `search_settings`.
        num_threads: Number of CPU threads. None uses all processors.
    """

    aligner_dir: Path | None
    figures_dir: Path | None
    names: str | None
    bucket_width: int
    tokenize: str
    lowercase: bool
    generation: dict[str, Any]
    num_threads: int | None


@dataclass(frozen=True)
class _System:
    """A system: a model, or a file with translations."""

    name: str
    path: Path
    translator: "BaseTranslator"

    def outputs(self, sources: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return the translations and the numbers of the lines that were too long.

        The translation of a line that is too long is empty. Line numbers count from 1.

        Raises:
            DataError: If all lines are too long.
        """
        from regard.generation.lines import enumerate_lines

        results = track(self.translator.translate(enumerate_lines(sources)), self.name, len(sources))
        found = [(result.text, result.error is not None) for result in results]
        too_long_lines = [number for number, (_, too_long) in enumerate(found, 1) if too_long]
        if len(too_long_lines) == len(found):
            raise DataError(f"all lines are too long for {self.name}: nothing was translated")
        return [text for text, _ in found], too_long_lines


def analyze_length(inputs: AnalysisInput, options: LengthOptions) -> None:
    """Translate with each model and write the scores in buckets of source length.

    Raises:
        UsageError: If an option does not apply.
        DataError: If a file cannot be read or has the wrong number of lines.
    """
    from regard.cli.output import open_output, render_figures, write_images, write_json, write_table
    from regard.metrics.by_length import bucket_by_length, count_lengths, count_system, score_by_length
    from regard.metrics.translation import check_tokenizer
    from regard.plotting.length import length_chart
    from regard.plotting.style import require_matplotlib

    if options.figures_dir is not None:
        require_matplotlib()
    tokenize = check_tokenizer(options.tokenize)
    names = inputs.display_names(options.names)
    pairs = inputs.read_pairs()
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    lengths = count_lengths(sources, tokenize)
    buckets = bucket_by_length(lengths, options.bucket_width)
    aligner_dir = options.aligner_dir
    linker = None if aligner_dir is None else Linker.load(aligner_dir, options.lowercase, options.num_threads)
    with open_output(inputs.output) as file:
        loaded = dict(inputs.load_systems(len(pairs), options.generation, options.num_threads))
        systems = [_System(name, inputs.models[i], loaded[i]) for i, name in enumerate(names)]
        translated = {system.name: system.outputs(sources) for system in systems}
        counts: dict[str, dict[str, SentenceCounts]] = {}
        # Models come first, so these are the tokenizers of the first model, if there is one.
        text = next(iter(loaded.values())).text
        links = _links(linker, text, pairs, [outputs for outputs, _ in translated.values()])
        for (name, (outputs, _)), own in zip(translated.items(), links, strict=True):
            counts[name] = count_system(outputs, references, tokenize, options.lowercase, own)
        first = counts[names[0]]
        scores: dict[str, dict[str, LengthScores]] = {
            name: {
                metric: score_by_length(one, buckets, None if name == names[0] else first[metric])
                for metric, one in own.items()
            }
            for name, own in counts.items()
        }
        for i, metric in enumerate(first):
            if i:
                file.write("\n")
            write_table(file, _table({name: own[metric] for name, own in scores.items()}, buckets))
        results = {
            "systems": {
                system.name: {
                    "path": str(system.path),
                    "too_long": translated[system.name][1],
                    **{metric: one.record() for metric, one in scores[system.name].items()},
                    "translations": translated[system.name][0],
                }
                for system in systems
            },
            "source": str(inputs.source),
            "reference": str(inputs.reference),
            "aligner": None if aligner_dir is None else str(aligner_dir),
            "tokenize": tokenize,
            "lowercase": options.lowercase,
            "buckets": [{"low": b.low, "high": b.high, "sentences": len(b.sentence_ids)} for b in buckets],
            "lengths": lengths,
        }
        write_json(inputs.json_file, results)
    if options.figures_dir is not None:
        labels, sizes = [bucket.label for bucket in buckets], [len(bucket.sentence_ids) for bucket in buckets]
        write_images(options.figures_dir, render_figures({"length": length_chart(scores, labels, sizes)}))
    for name, (_, too_long) in translated.items():
        if too_long:
            print_message(
                f"{name}: {len(too_long)} of {len(pairs)} lines are too long for the model and were not "
                "translated"
            )


def _links(
    linker: Linker | None,
    text: "TextProcessor",
    pairs: Sequence[tuple[str, str]],
    outputs: Sequence[Sequence[str]],
) -> "list[tuple[list[Links], list[Links]] | None]":
    """Return, for each system, the links of the sources with the references and with its translations.

    All texts are split into words by the same tokenizers, so that DROP of all systems is computed on the same
    source words.
    """
    if linker is None:
        return [None] * len(outputs)
    sources = [_words(line, text.source) for line, _ in pairs]
    wanted = list(zip(sources, (_words(line, text.target) for _, line in pairs), strict=True))
    linker.warn_if_unknown_words(wanted)
    links = linker.align(wanted)
    found = []
    for lines in outputs:
        words = (_words(line, text.target) for line in lines)
        found.append((links, linker.align(list(zip(sources, words, strict=True)))))
    return found


def _words(line: str, side: "TextSide") -> list[str]:
    """Return the words of a line, by a tokenizer with subword tokens joined."""
    from regard.generation.analysis import tokens_to_words

    return [word for word in tokens_to_words(side, side.tokenize(line)) if word]


def _table(systems: "dict[str, LengthScores]", buckets: "Sequence[Bucket]") -> list[list[str]]:
    """Return the table of one metric: a header, one row per bucket, and a last row for all sentences."""
    names = list(systems)
    head = ["words", "sentences"]
    for name, one in systems.items():
        head += [f"{name} {one.name}", "95 %"] + ([] if name == names[0] else [f"- {names[0]}", "p"])
    rows = [head]
    for b, bucket in enumerate(buckets):
        cells = [_cells(one.buckets[b], name == names[0]) for name, one in systems.items()]
        rows.append([bucket.label, str(len(bucket.sentence_ids)), *(cell for own in cells for cell in own)])
    cells = [_cells(one.total, name == names[0]) for name, one in systems.items()]
    total = sum(len(bucket.sentence_ids) for bucket in buckets)
    return [*rows, ["all", str(total), *(cell for own in cells for cell in own)]]


def _cells(found: "BucketScore | None", is_baseline: bool) -> list[str]:
    """Return score and interval and, for systems after the first, difference and p-value."""
    cells = [""] * (2 if is_baseline else 4)
    if found is None:
        return cells
    cells[0] = f"{found.value:.2f}"
    if found.interval is not None:
        cells[1] = "{:.2f} to {:.2f}".format(*found.interval)
    if found.difference is not None and found.p_value is not None:
        cells[2:] = [f"{found.difference.value:+.2f}", f"{found.p_value:.3f}"]
    return cells
