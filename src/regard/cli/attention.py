"""`regard analyze attention`: statistics of the attention of models under teacher forcing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.analysed import Analysed
from regard.cli.progress import following, say
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.data.links import GoldLinks
    from regard.data.text import TextPair
    from regard.decoding.analysis import ForcedLine
    from regard.decoding.config import SearchConfig
    from regard.metrics.attention import AttentionFigures, SentenceAttention
    from regard.models.base import TranslationModel

__all__ = ["AttentionOptions", "show_attention"]

_LONGEST = 30  # maximum number of target tokens of a line that is chosen automatically for a figure


@dataclass(frozen=True)
class AttentionOptions:
    """The options of `regard analyze attention`.

    Attributes:
        gold: File with gold links of the text. None computes no alignment error rate.
        svg: Directory for the figures. None plots no figures.
        lines: Numbers of the lines whose attention maps are plotted, from 1.
        names: Display names of the models, separated by commas. None uses the names of the directories.
        chosen: Layer, head and shift of the attention, as arguments of `search_settings`. A missing value
            means the one that the model uses for word links.
        prior: Whether to use the attention before the target token is observed.
        width: Width of an entropy bin in nats.
    """

    gold: Path | None
    svg: Path | None
    lines: list[int]
    names: str | None
    chosen: dict[str, Any]
    prior: bool
    width: float


@dataclass(frozen=True)
class _Model:
    """A model with its name, its tokenizers and vocabularies, and its search settings."""

    name: str
    model: "TranslationModel"
    text: "TextPair"
    search: "SearchConfig"

    def lines(self, pairs: "Sequence[tuple[str, str]]") -> "Iterator[ForcedLine | None]":
        """Run forced decoding and yield the result of each pair, or None for a skipped pair.

        Raises:
            UsageError: If the model has no attention to the source.
        """
        from regard.decoding.analysis import force_lines

        for line in force_lines(self.model, self.text, pairs, self.search):
            if line is not None and not line.attends:
                raise UsageError(
                    f"{self.name} has no attention to the source, so there is nothing to analyze"
                )
            yield line


@dataclass(frozen=True)
class _Found:
    """The results of one model: for each line (None if it was skipped) and for the whole text."""

    sentences: "list[SentenceAttention | None]"
    perplexity: float | None
    figures: "AttentionFigures"

    def record(self) -> dict[str, Any]:
        """Return all results as JSON-compatible values."""
        lines = [{"line": n, **one.record()} for n, one in enumerate(self.sentences, 1) if one is not None]
        return {"perplexity": self.perplexity, **self.figures.record(), "lines": lines}


def show_attention(analysed: Analysed, options: AttentionOptions) -> None:
    """Run forced decoding on the references and write statistics of the attention.

    Raises:
        UsageError: If an option does not apply to the models.
        DataError: If a file cannot be read or has the wrong format.
    """
    from regard.cli.output import open_output, write_json, write_pictures, write_table

    names = analysed.names(options.names)
    pairs = analysed.pairs()
    gold = _read_gold(options.gold, len(pairs), analysed.source)
    beyond = [line for line in options.lines if line > len(pairs)]
    if beyond:
        raise UsageError(f"--line {beyond[0]}: {analysed.source} has only {len(pairs)} lines")
    with open_output(analysed.output) as file:
        folders = zip(names, analysed.models, strict=True)
        models = [_load(name, folder, analysed, options.chosen) for name, folder in folders]
        found = {model.name: _examine(model, pairs, gold, analysed, options) for model in models}
        for i, rows in enumerate(_tables(found)):
            if i:
                file.write("\n")
            write_table(file, rows)
        figures = {
            "models": {
                name: {"folder": str(folder), **found[name].record()}
                for name, folder in zip(names, analysed.models, strict=True)
            },
            "source": str(analysed.source),
            "reference": str(analysed.reference),
            "gold": None if options.gold is None else str(options.gold),
            "attention": "prior" if options.prior else "posterior",
            "alignment": {model.name: model.search.alignment.record() for model in models},
        }
        write_json(analysed.json_file, figures)
    if options.svg is not None:
        pictures = _charts({name: one.figures for name, one in found.items()})
        for line in options.lines or _most_different(list(found.values())):
            pictures |= _maps(line, models, pairs, gold, options)
        write_pictures(options.svg, pictures)


def _read_gold(path: Path | None, lines: int, source: Path) -> "list[GoldLinks] | None":
    from regard.data.links import read_gold

    if path is None:
        return None
    gold = list(read_gold(path))
    if len(gold) != lines:
        raise DataError(
            f"{path} has {len(gold)} lines but {source} has {lines}: gold links need one line per source line"
        )
    return gold


def _load(name: str, folder: Path, analysed: Analysed, chosen: dict[str, Any]) -> _Model:
    from regard.api.loading import load_models, search_settings

    model, text, base = load_models([folder], analysed.device, analysed.precision)
    return _Model(name, model, text, search_settings(base, {"batch": analysed.batch, **chosen}))


def _examine(
    model: _Model,
    pairs: "Sequence[tuple[str, str]]",
    gold: "list[GoldLinks] | None",
    analysed: Analysed,
    options: AttentionOptions,
) -> _Found:
    from regard.data.links import check_links
    from regard.metrics.attention import score_sentences, summarise

    sentences: list[SentenceAttention | None] = []
    total = steps = 0
    for number, line in enumerate(following(model.lines(pairs), model.name, len(pairs)), 1):
        if line is None:
            sentences.append(None)
            continue
        if gold is not None:
            words = {"source": len(line.source), "reference": len(line.target)}
            note = f" with the tokenization of {model.name}"
            # Gold links count words as the model splits them, so they must fit its tokenization.
            check_links(gold[number - 1].possible, words, f"{options.gold}:{number}", note)
        sentences.append(line.examine(model.search.alignment, options.prior, model.name))
        total += float(line.log_probs.sum())
        steps += len(line.log_probs)
    kept = [one for one in sentences if one is not None]
    if not kept:
        raise DataError(
            f"{analysed.source}: {model.name} had to skip all lines, as they are empty or too long"
        )
    links, sets = (None, None) if gold is None else score_sentences(sentences, gold)
    # exp(x) overflows a float above x = 709.
    perplexity = math.exp(-total / steps) if total / steps > -700 else None
    return _Found(sentences, perplexity, summarise(kept, links, options.width, sets))


# Tables


def _tables(found: dict[str, _Found]) -> list[list[list[str]]]:
    """Return three tables: all statistics, time steps by entropy, and sentences by coverage.

    The first row of each table is its header.
    """
    scored = any(one.figures.alignment is not None for one in found.values())
    selects = any(one.figures.selection is not None for one in found.values())
    sets = ["AER % (set)", "precision % (set)", "recall % (set)"] if selects else []
    head = ["model", "lines", "steps", "perplexity", "accuracy %", "entropy", "support", "coverage %"]
    single = [[*head, *(["AER %", "1 - AER"] if scored else []), *sets]]
    for name, one in found.items():
        figures = one.figures
        row = [name, str(figures.sentences), str(figures.steps)]
        row += ["" if one.perplexity is None else f"{one.perplexity:.3f}", f"{100 * figures.accuracy:.2f}"]
        row += [f"{figures.entropy:.4f}", f"{figures.support:.2f}", f"{100 * figures.coverage:.2f}"]
        if figures.alignment is not None:
            row += [f"{100 * figures.alignment.aer:.2f}", f"{1 - figures.alignment.aer:.3f}"]
        if figures.selection is not None:
            chosen = figures.selection
            row += [f"{100 * value:.2f}" for value in (chosen.aer, chosen.precision, chosen.recall)]
        else:
            row += [""] * len(sets)
        single.append(row)

    every = {name: one.figures for name, one in found.items()}
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
    return [single, entropies, coverages]


# Figures


def _charts(models: "dict[str, AttentionFigures]") -> dict[str, str]:
    from regard.report.attention import svg_coverage, svg_entropy

    return {"entropy.svg": svg_entropy(models), "coverage.svg": svg_coverage(models)}


def _most_different(found: list[_Found]) -> list[int]:
    """Return the number of the line on which the first and the last model differ most, in a list.

    The difference is that of the sums of entropies over all time steps. Lines that are too long for a
    readable figure are chosen only if there is no other line. The list is empty if no line was processed by
    both models.
    """
    first, last = found[0].sentences, found[-1].sentences
    apart: dict[int, float] = {}
    for number, (one, other) in enumerate(zip(first, last, strict=True), 1):
        if one is not None and other is not None:
            long = len(one.entropies) > _LONGEST
            apart[number] = -1 if long else abs(float(one.entropies.sum() - other.entropies.sum()))
    return [max(apart, key=apart.__getitem__)] if apart else []


def _maps(
    number: int,
    models: list[_Model],
    pairs: "Sequence[tuple[str, str]]",
    gold: "list[GoldLinks] | None",
    options: AttentionOptions,
) -> dict[str, str]:
    """Plot the attention maps of a line, and the difference between the map of each model and the first."""
    from regard.metrics.maps import AttentionMap
    from regard.report.difference import difference_pictures

    maps: dict[str, AttentionMap] = {}
    for model in models:
        (line,) = model.lines([pairs[number - 1]])
        if line is None:
            say(f"line {number} is not plotted: it is empty or too long for {model.name}")
            return {}
        weights = line.map(model.search.alignment, options.prior, model.name)
        words = line.source, line.target, line.source_words, line.target_words
        maps[model.name] = AttentionMap.of_tokens(weights, *words)
    try:
        return difference_pictures(number, maps, None if gold is None else gold[number - 1])
    except DataError as error:
        say(f"line {number} is not plotted: {error}")
        return {}
