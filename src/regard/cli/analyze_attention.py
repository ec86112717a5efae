"""`regard analyze attention`: statistics of the attention of models under teacher forcing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysis_input import AnalysisInput
from regard.cli.output import print_message, track
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.data.links import GoldLinks
    from regard.generation.analysis import ForcedResult
    from regard.generation.base import BaseTranslator
    from regard.generation.config import AlignmentConfig
    from regard.metrics.attention import AttentionStatistics, SentenceAttention
    from regard.plotting.figure import Figure

__all__ = ["AttentionOptions", "analyze_attention"]

_MAX_FIGURE_TOKENS = 30  # maximum number of target tokens of a line that is chosen automatically for a figure


@dataclass(frozen=True)
class AttentionOptions:
    """The options of `regard analyze attention`.

    Attributes:
        gold_path: File with gold links of the text. None computes no alignment error rate.
        figures_dir: Directory for the figures. None plots no figures.
        lines: Numbers of the lines whose attention maps are plotted, from 1.
        names: Display names of the models, separated by commas. None uses the names of the directories.
        link_settings: Layer, head and shift of the attention, as arguments of `search_settings`. A missing
            value means the one that the model uses for word links.
        prior: Whether to use the attention before the target token is observed.
        bin_width: Width of an entropy bin in nats.
    """

    gold_path: Path | None
    figures_dir: Path | None
    lines: list[int]
    names: str | None
    link_settings: dict[str, Any]
    prior: bool
    bin_width: float


@dataclass(frozen=True)
class _LoadedModel:
    """A model with its name."""

    name: str
    translator: "BaseTranslator"

    @property
    def alignment(self) -> "AlignmentConfig":
        """Return layer, head and shift of the attention."""
        return self.translator.search.alignment

    def force_decode(self, pairs: "Sequence[tuple[str, str]]") -> "Iterator[ForcedResult | None]":
        """Run forced decoding and yield the result of each pair, or None for a skipped pair.

        Raises:
            UsageError: If the model has no attention to the source.
        """
        for line in self.translator.force_decode(pairs):
            if line is not None and not line.attends:
                raise UsageError(
                    f"{self.name} has no attention to the source, so there is nothing to analyze"
                )
            yield line


@dataclass(frozen=True)
class _ModelResult:
    """The results of one model: for each line (None if it was skipped) and for the whole text."""

    sentences: "list[SentenceAttention | None]"
    perplexity: float | None
    statistics: "AttentionStatistics"

    def to_dict(self) -> dict[str, Any]:
        """Return all results as JSON-compatible values."""
        lines = [{"line": n, **one.record()} for n, one in enumerate(self.sentences, 1) if one is not None]
        return {"perplexity": self.perplexity, **self.statistics.record(), "lines": lines}


def analyze_attention(inputs: AnalysisInput, options: AttentionOptions) -> None:
    """Run forced decoding on the references and write statistics of the attention.

    Raises:
        UsageError: If an option does not apply to the models.
        DataError: If a file cannot be read or has the wrong format.
    """
    from regard.cli.output import open_output, render_figures, write_images, write_json, write_table
    from regard.plotting.style import require_matplotlib

    if options.figures_dir is not None:
        require_matplotlib()
    names = inputs.display_names(options.names)
    pairs = inputs.read_pairs()
    gold = _read_gold(options.gold_path, len(pairs), inputs.source)
    beyond = [line for line in options.lines if line > len(pairs)]
    if beyond:
        raise UsageError(f"--line {beyond[0]}: {inputs.source} has only {len(pairs)} lines")
    with open_output(inputs.output) as file:
        named_dirs = zip(names, inputs.models, strict=True)
        models = [_load(name, directory, inputs, options.link_settings) for name, directory in named_dirs]
        results = {model.name: _compute_statistics(model, pairs, gold, inputs, options) for model in models}
        for i, rows in enumerate(_tables(results)):
            if i:
                file.write("\n")
            write_table(file, rows)
        record = {
            "models": {
                name: {"directory": str(directory), **results[name].to_dict()}
                for name, directory in zip(names, inputs.models, strict=True)
            },
            "source": str(inputs.source),
            "reference": str(inputs.reference),
            "gold": None if options.gold_path is None else str(options.gold_path),
            "attention": "prior" if options.prior else "posterior",
            "alignment": {model.name: model.alignment.record() for model in models},
        }
        write_json(inputs.json_file, record)
    if options.figures_dir is not None:
        figures = _charts({name: one.statistics for name, one in results.items()})
        for line in options.lines or _select_line(list(results.values())):
            figures |= _maps(line, models, pairs, gold, options)
        write_images(options.figures_dir, render_figures(figures))


def _read_gold(path: Path | None, lines: int, source: Path) -> "list[GoldLinks] | None":
    from regard.data.links import read_gold_links

    if path is None:
        return None
    gold = list(read_gold_links(path))
    if len(gold) != lines:
        raise DataError(
            f"{path} has {len(gold)} lines but {source} has {lines}: gold links need one line per source line"
        )
    return gold


def _load(name: str, directory: Path, inputs: AnalysisInput, chosen: dict[str, Any]) -> _LoadedModel:
    from regard.api.loading import load_translator

    translator = load_translator([directory], inputs.device, inputs.precision)
    translator.require("score", "regard analyze attention")
    return _LoadedModel(name, translator.with_search({"batch_size": inputs.batch_size, **chosen}))


def _compute_statistics(
    model: _LoadedModel,
    pairs: "Sequence[tuple[str, str]]",
    gold: "list[GoldLinks] | None",
    inputs: AnalysisInput,
    options: AttentionOptions,
) -> _ModelResult:
    from regard.data.links import check_links
    from regard.metrics.attention import score_links, summarize

    sentences: list[SentenceAttention | None] = []
    log_prob = steps = 0
    for number, line in enumerate(track(model.force_decode(pairs), model.name, len(pairs)), 1):
        if line is None:
            sentences.append(None)
            continue
        if gold is not None:
            words = {"source": len(line.source), "reference": len(line.target)}
            note = f" with the tokenization of {model.name}"
            # Gold links count words as the model splits them, so they must fit its tokenization.
            check_links(gold[number - 1].possible, words, f"{options.gold_path}:{number}", note)
        sentences.append(line.attention_statistics(model.alignment, options.prior, model.name))
        log_prob += float(line.log_probs.sum())
        steps += len(line.log_probs)
    kept = [one for one in sentences if one is not None]
    if not kept:
        raise DataError(f"{inputs.source}: {model.name} had to skip all lines, as they are empty or too long")
    links, sets = (None, None) if gold is None else score_links(sentences, gold)
    # exp(x) overflows a float above x = 709.
    perplexity = math.exp(-log_prob / steps) if log_prob / steps > -700 else None
    return _ModelResult(sentences, perplexity, summarize(kept, links, options.bin_width, sets))


# Tables


def _tables(results: dict[str, _ModelResult]) -> list[list[list[str]]]:
    """Return three tables: all statistics, time steps by entropy, and sentences by coverage.

    The first row of each table is its header.
    """
    scored = any(one.statistics.alignment is not None for one in results.values())
    selects = any(one.statistics.selection is not None for one in results.values())
    sets = ["AER % (set)", "precision % (set)", "recall % (set)"] if selects else []
    head = ["model", "lines", "steps", "perplexity", "accuracy %", "entropy", "support", "coverage %"]
    summary = [[*head, *(["AER %", "1 - AER"] if scored else []), *sets]]
    for name, one in results.items():
        statistics = one.statistics
        row = [name, str(statistics.sentences), str(statistics.steps)]
        row += ["" if one.perplexity is None else f"{one.perplexity:.3f}", f"{100 * statistics.accuracy:.2f}"]
        row += [f"{statistics.entropy:.4f}", f"{statistics.support:.2f}", f"{100 * statistics.coverage:.2f}"]
        if statistics.alignment is not None:
            row += [f"{100 * statistics.alignment.aer:.2f}", f"{1 - statistics.alignment.aer:.3f}"]
        if statistics.selection is not None:
            chosen = statistics.selection
            row += [f"{100 * value:.2f}" for value in (chosen.aer, chosen.precision, chosen.recall)]
        else:
            row += [""] * len(sets)
        summary.append(row)

    every = {name: one.statistics for name, one in results.items()}
    columns = [f"{name} {what}" for name in every for what in ("steps %", "accuracy %")]
    entropies = [["entropy", *columns]]
    # The number of bins differs between models: it depends on the largest entropy of each.
    edges = max((one.entropies.edges for one in every.values()), key=len)
    for b, (low, high) in enumerate(pairwise(edges)):
        row = [f"{low:g} to {high:g}"]
        for one in every.values():
            here = b < len(one.entropies.counts) and one.entropies.counts[b] > 0
            shares = (one.entropies.shares[b], one.entropies.accuracy[b]) if here else ()
            row += [f"{100 * share:.2f}" for share in shares] or ["0.00", ""]
        entropies.append(row)

    coverages = [["coverage %", *(f"{name} sentences %" for name in every)]]
    # Coverage is in [0, 1], so all models have the same bins; empty rows are omitted.
    bins = [one.coverages for one in every.values()]
    for b, (low, high) in enumerate(pairwise(bins[0].edges)):
        row = [f"{100 * low:g} to {100 * high:g}", *(f"{100 * one.shares[b]:.2f}" for one in bins)]
        if any(one.counts[b] for one in bins):
            coverages.append(row)
    return [summary, entropies, coverages]


# Figures


def _charts(models: "dict[str, AttentionStatistics]") -> "dict[str, Figure]":
    from regard.plotting.attention_statistics import coverage_chart, entropy_chart

    return {"entropy": entropy_chart(models), "coverage": coverage_chart(models)}


def _select_line(results: list[_ModelResult]) -> list[int]:
    """Return the number of the line on which the first and the last model differ most, in a list.

    The difference is that of the sums of entropies over all time steps. Lines that are too long for a
    readable figure are chosen only if there is no other line. The list is empty if no line was processed by
    both models.
    """
    first, last = results[0].sentences, results[-1].sentences
    differences: dict[int, float] = {}
    for number, (one, other) in enumerate(zip(first, last, strict=True), 1):
        if one is not None and other is not None:
            long = len(one.entropies) > _MAX_FIGURE_TOKENS
            differences[number] = -1 if long else abs(float(one.entropies.sum() - other.entropies.sum()))
    return [max(differences, key=differences.__getitem__)] if differences else []


def _maps(
    number: int,
    models: list[_LoadedModel],
    pairs: "Sequence[tuple[str, str]]",
    gold: "list[GoldLinks] | None",
    options: AttentionOptions,
) -> "dict[str, Figure]":
    """Plot the attention maps of a line, and the difference between the map of each model and the first."""
    from regard.metrics.maps import AttentionMap
    from regard.plotting.attention import maps_and_differences

    maps: dict[str, AttentionMap] = {}
    for model in models:
        (line,) = model.force_decode([pairs[number - 1]])
        if line is None:
            print_message(f"line {number} is not plotted: it is empty or too long for {model.name}")
            return {}
        weights = line.attention_map(model.alignment, options.prior, model.name)
        words = line.source, line.target, line.source_words, line.target_words
        maps[model.name] = AttentionMap.of_tokens(weights, *words)
    try:
        return maps_and_differences(number, maps, None if gold is None else gold[number - 1])
    except DataError as error:
        print_message(f"line {number} is not plotted: {error}")
        return {}
