"""Statistics of the attention of models under teacher forcing, and their attention maps.

They correspond to Figures 2 to 5 and Table 3 of Shankar & Sarawagi (2019); `regard.metrics.attention` defines
them. All models run forced decoding on the same references, so their statistics can be compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.analysis.inputs import ParallelText, Progress, System, no_progress, read_gold
from regard.config.results import Result, json_value, perplexity
from regard.errors import DataError, UsageError
from regard.generation.config import AlignmentConfig
from regard.generation.forced import sentence_attention
from regard.generation.linking import attention_map
from regard.metrics.alignment import AttentionMap, match_columns
from regard.metrics.attention import AttentionStatistics, SentenceAttention, score_links, summarize
from regard.plot.analyses import coverage_chart, entropy_chart
from regard.plot.figure import Figure
from regard.plot.heatmap import maps_and_differences
from regard.text.links import GoldLinks, check_links

_MAX_FIGURE_TOKENS = 30  # maximum number of target tokens of a line that is chosen automatically for a figure
_DIGITS = 6  # decimals of attention weights in JSON


@dataclass(frozen=True)
class AttentionOptions:
    """The options of an analysis of attention.

    Attributes:
        gold_links: File with gold links of the text, or the links of each line. None computes no alignment
            error rate.
        lines: Numbers of the lines whose attention maps are kept, from 1. `auto` selects the line in which
            the first and the last model differ most.
        prior: Whether to use the attention before the target token is observed.
        bin_width: Width of an entropy bin in nats.
    """

    gold_links: Path | str | Sequence[GoldLinks | str] | None = None
    lines: Sequence[int] | Literal["auto"] = ()
    prior: bool = False
    bin_width: float = 0.2

    def __post_init__(self) -> None:
        """Reject a width that is out of range."""
        if not 0.001 <= self.bin_width <= 1000:
            raise UsageError(f"--bin-width {self.bin_width}: expected a number from 0.001 to 1000")


@dataclass(frozen=True)
class ModelAttention:
    """The attention of one model.

    Attributes:
        paths: The model directories.
        alignment: Layer and heads of the attention.
        perplexity: Perplexity of the references. None if it is too large for a float.
        statistics: Statistics of the whole text.
        sentences: Statistics of each line. None for a line that was skipped.
    """

    paths: tuple[str, ...]
    alignment: AlignmentConfig
    perplexity: float | None
    statistics: AttentionStatistics
    sentences: tuple[SentenceAttention | None, ...]

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        lines = [{"line": n, **line.record()} for n, line in enumerate(self.sentences, 1) if line is not None]
        return {
            "paths": self.paths,
            "alignment": self.alignment,
            "perplexity": self.perplexity,
            **self.statistics.record(),
            "lines": lines,
        }


@dataclass(frozen=True)
class LineMaps:
    """The attention maps of all models for one line.

    Attributes:
        line: Number of the line, from 1.
        maps: Map of each model by name, over the same words. Empty if the models cannot be compared.
        gold: Gold links of the line, if given.
        error: Reason why there are no maps. None if there are.
    """

    line: int
    maps: Mapping[str, AttentionMap]
    gold: GoldLinks | None = None
    error: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        maps = {
            name: {
                "source": model_map.columns,
                "target": model_map.target,
                "weights": [[round(weight, _DIGITS) for weight in row] for row in model_map.weights.tolist()],
            }
            for name, model_map in self.maps.items()
        }
        return {"line": self.line, "maps": maps, "error": self.error}


@dataclass(frozen=True)
class AttentionAnalysis(Result):
    """The attention of one or more models under teacher forcing.

    Attributes:
        models: The attention of each model, by name.
        source: The file of the source lines. None for a text from Python.
        reference: The file of the references. None for a text from Python.
        gold_links: The file of the gold links. None without gold links, or for those from Python.
        prior: Whether the attention is the one before the target token is observed.
        maps: The attention maps of the selected lines.
    """

    schema = "attention_analysis"
    models: Mapping[str, ModelAttention]
    source: str | None
    reference: str | None
    gold_links: str | None
    prior: bool
    maps: tuple[LineMaps, ...] = ()

    @property
    def statistics(self) -> dict[str, AttentionStatistics]:
        """The statistics of each model, by name."""
        return {name: model.statistics for name, model in self.models.items()}

    def to_data(self) -> dict[str, Any]:
        """Return the statistics of each model, for the whole text and for each line."""
        return {
            "source": self.source,
            "reference": self.reference,
            "gold_links": self.gold_links,
            "attention": "prior" if self.prior else "posterior",
            "models": json_value(self.models),
            "maps": json_value(self.maps),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model, with the statistics of the whole text."""
        rows = []
        for name, model in self.models.items():
            statistics = model.statistics
            row: dict[str, Any] = {"model": name, "lines": statistics.sentences, "steps": statistics.steps}
            row["perplexity"] = model.perplexity
            row |= {key: getattr(statistics, key) for key in ("accuracy", "entropy", "support", "coverage")}
            if statistics.alignment is not None:
                row["aer"] = statistics.alignment.aer
            rows.append(row)
        return rows

    def plot(self, kind: Literal["entropy", "coverage"] = "entropy") -> Figure:
        """Return a figure of the statistics (Shankar & Sarawagi (2019), Figures 3 and 4).

        `entropy` is accuracy by entropy and the distribution of entropy, `coverage` that of coverage.

        Raises:
            UsageError: if there is no such kind.
        """
        charts = {"entropy": entropy_chart, "coverage": coverage_chart}
        if kind not in charts:
            raise UsageError(f"kind={kind!r}: expected one of {', '.join(charts)}")
        return charts[kind](self.statistics)

    def figures(self) -> dict[str, Figure]:
        """Return all figures by file name: the statistics, and the maps of the selected lines."""
        named_figures = {"entropy": self.plot("entropy"), "coverage": self.plot("coverage")}
        for line_maps in self.maps:
            if line_maps.maps:
                named_figures |= maps_and_differences(line_maps.line, line_maps.maps, line_maps.gold)
        return named_figures

    def __repr__(self) -> str:
        """Return the entropy and the accuracy of each model."""
        parts = (
            f"{name}: entropy {statistics.entropy:.4f}, accuracy {statistics.accuracy:.2%}"
            for name, statistics in self.statistics.items()
        )
        return f"AttentionAnalysis({'; '.join(parts)})"


def analyze_attention(
    systems: Iterable[System],
    text: ParallelText,
    options: AttentionOptions = AttentionOptions(),
    progress: Progress = no_progress,
) -> AttentionAnalysis:
    """Run forced decoding on the references and compute statistics of the attention.

    The models may be loaded while they are iterated over. The text is checked first.

    Raises:
        UsageError: if a model has no attention to the source or cannot score a given translation, or there is
            no such line.
        DataError: if the gold links do not match the text, or a model had to skip all lines.
    """
    gold = None if options.gold_links is None else read_gold(options.gold_links, text)
    gold_path = str(options.gold_links) if isinstance(options.gold_links, str | Path) else None
    # The systems may load while they are iterated over, so errors in the options come first.
    _check_lines(options.lines, text)
    # All models stay loaded, because the maps of the selected lines need each of them a second time.
    loaded = list(systems)
    # Refuse every model before the first one spends minutes on the text.
    for system in loaded:
        system.translator.require("score", "regard analyze attention")
    models = {
        model.name: _analyze_model(model, text, gold, gold_path, options, progress=progress)
        for model in loaded
    }
    # The line of the largest difference is known only now. Keeping the maps of all lines would need too much
    # memory, so forced decoding of the selected lines runs again.
    if options.lines == "auto":
        lines: Sequence[int] = _select_line([attention.sentences for attention in models.values()])
    else:
        lines = options.lines
    maps = tuple(
        _line_maps(line, loaded, text, None if gold is None else gold[line - 1], options.prior)
        for line in lines
    )
    return AttentionAnalysis(models, text.source_path, text.reference_path, gold_path, options.prior, maps)


def _check_lines(lines: Sequence[int] | str, text: ParallelText) -> None:
    """Check that the text has the selected lines."""
    if isinstance(lines, str):
        if lines != "auto":
            raise UsageError(f"lines={lines!r}: expected line numbers, or auto")
        return
    for line in lines:
        if not 1 <= line <= len(text):
            raise UsageError(f"--lines {line}: {text.source_name} has only {len(text)} lines, counted from 1")


def _analyze_model(
    system: System,
    text: ParallelText,
    gold: Sequence[GoldLinks] | None,
    gold_path: str | None,
    options: AttentionOptions,
    progress: Progress,
) -> ModelAttention:
    """Return the attention statistics of one model."""
    alignment = system.translator.search.alignment
    sentences: list[SentenceAttention | None] = []
    log_prob = steps = 0
    forced = system.translator.score(text.pairs, predictions=True)
    for number, line in enumerate(progress(forced, system.name, len(text)), 1):
        if line.error:
            # The gold links of a skipped line count as missed (`score_links`).
            sentences.append(None)
            continue
        if not line.attends:
            raise UsageError(f"{system.name} has no attention to the source, so there is nothing to analyze")
        if gold is not None:
            words = {"source": len(line.source_words), "reference": len(line.target_words)}
            note = f" with the tokenization of {system.name}"
            # Gold links count words as the model splits them, so they must fit its tokenization.
            check_links(gold[number - 1].possible, words, f"{gold_path or 'gold_links'}:{number}", note)
        sentences.append(sentence_attention(line, alignment, options.prior, system.name))
        log_prob += float(line.token_log_probs.sum())
        steps += len(line.token_log_probs)
    processed = [sentence for sentence in sentences if sentence is not None]
    if not processed:
        raise DataError(
            f"{text.source_name}: {system.name} had to skip all lines, as they are empty or too long"
        )
    links = None if gold is None else score_links(sentences, gold)
    statistics = summarize(processed, links, options.bin_width)
    return ModelAttention(
        system.paths, alignment, perplexity_of(log_prob, steps), statistics, tuple(sentences)
    )


def perplexity_of(log_prob: float, steps: int) -> float | None:
    """Return the perplexity of a text; None without time steps, or if it is too large for a float."""
    return json_value(perplexity(-log_prob / steps)) if steps else None


def _select_line(models: Sequence[Sequence[SentenceAttention | None]]) -> list[int]:
    """Return the line on which the sums of entropies of the first and the last model differ most, in a list.

    The list is empty if no line was processed by both models.
    """
    differences: dict[int, float] = {}
    for number, (first, other) in enumerate(zip(models[0], models[-1], strict=True), 1):
        if first is not None and other is not None:
            # -1 is below every difference, so a long line is chosen only without an alternative.
            long = len(first.entropies) > _MAX_FIGURE_TOKENS
            differences[number] = -1 if long else abs(float(first.entropies.sum() - other.entropies.sum()))
    return [max(differences, key=differences.__getitem__)] if differences else []


def _line_maps(
    number: int, systems: Sequence[System], text: ParallelText, gold: GoldLinks | None, prior: bool
) -> LineMaps:
    """Return the maps of a line, or the reason why there are none."""
    maps: dict[str, AttentionMap] = {}
    for system in systems:
        (line,) = system.translator.score([text.pairs[number - 1]])
        if line.error:
            return LineMaps(number, {}, error=f"it is empty or too long for {system.name}")
        layers = line.attention if prior else line.posterior_attention
        weights = attention_map(layers, line.alignment_config, system.name)
        words = line.source_words, line.target_words, line.source_word_ids, line.target_word_ids
        maps[system.name] = AttentionMap.of_tokens(weights, *words)
    try:
        # Models that split the line into different words have no common columns.
        match_columns(maps)
    except DataError as error:
        return LineMaps(number, {}, error=str(error))
    return LineMaps(number, maps, gold)
