"""Evaluation of translations against references: `regard.evaluate`, with corpus and sentence scores.

result = regard.evaluate(translations, references)
result.bleu
result.to_pandas()
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.analysis.inputs import read_links
from regard.api.arguments import (
    LinkSource,
    NamedText,
    TextSource,
    check_rows,
    check_unused,
    count_words,
    read_parallel,
)
from regard.api.evaluation_result import (
    Evaluation,
    EvaluationOptions,
    LinkEvaluation,
    MetricScore,
    SystemComparison,
)
from regard.errors import UsageError
from regard.metrics.alignment import aer_from_counts, alignment_score, count_links
from regard.metrics.base import METRICS, MetricInput, bootstrap, paired_bootstrap
from regard.metrics.translation import looks_tokenized
from regard.text.corpus import check_num_lines
from regard.text.formats.base import FileOptions
from regard.text.links import GoldLinks, Links, parse_gold_links, parse_links


def evaluate(
    hypotheses: TextSource | None = None,
    references: Iterable[Any] | Path | str | None = None,
    sources: TextSource | None = None,
    *,
    metrics: str | Iterable[str] = ("bleu", "chrf", "ter"),
    baseline: TextSource | None = None,
    reference_links: LinkSource | None = None,
    hypothesis_links: LinkSource | None = None,
    baseline_links: LinkSource | None = None,
    gold_links: LinkSource | None = None,
    predicted_links: LinkSource | None = None,
    targets: TextSource | None = None,
    options: EvaluationOptions | None = None,
    file_options: FileOptions | None = None,
) -> Evaluation:
    """Score translations or word links with 95 % confidence intervals (Koehn 2004).

    Args:
        hypotheses: Translations, one per line; in Python, also strings or results of `Translator.translate`.
        references: Reference translations, one per translation. Several files, or a list of lists, are
            several sets of references. Default: those of a file of translations and references (TSV...).
        sources: Source text. It is included in the rows of sentences, and word links are checked against it.
        metrics: Names of metrics: bleu, chrf, ter, rep, drop, meteor (English, needs Java), accuracy (share
            of exactly correct lines), edits (character edit distance), or one of a plugin.
        baseline: Translations of another system, for a paired comparison.
        reference_links: For DROP: word links i-j of source and reference. All links must be computed by the
            same aligner.
        hypothesis_links: For DROP: word links of source and translation.
        baseline_links: For DROP: word links of source and baseline.
        gold_links: Gold word links (.talp: i-j sure, ipj possible), for the alignment error rate of
            `predicted_links`.
        predicted_links: Word links that are compared with the gold links.
        targets: Target text of the gold links, whose words the links must not exceed.
        options: Tokenizer, case, parameters of REP, and the bootstrap.
        file_options: Format of such a file.

    Raises:
        DataError: if the numbers of sentences differ, or a link points beyond its sentence.
        UsageError: if a metric is unknown, or an argument is missing or has no effect.
    """
    options, names = options or EvaluationOptions(), _metric_names(metrics)
    links = {"reference_links": reference_links, "hypothesis_links": hypothesis_links}
    links |= {"baseline_links": baseline_links}
    _check_needed(names, hypotheses is not None, baseline is not None, links)
    if (gold_links is None) != (predicted_links is None):
        raise UsageError("gold_links and predicted_links (--gold-links, --predicted-links) need each other")
    if gold_links is None and (targets is not None or (sources is not None and hypotheses is None)):
        raise UsageError("sources and targets have no effect without gold links (--gold-links)")
    if hypotheses is None and gold_links is None:
        raise UsageError("there is nothing to evaluate: give translations and references, or word links")
    result = Evaluation(options=options)
    if hypotheses is not None:
        texts = _read_texts(hypotheses, references, file_options)
        result = _evaluate_texts(*texts, sources, names, baseline, links, options)
    if gold_links is None or predicted_links is None:
        return result
    samples = {"num_bootstrap_samples": options.num_bootstrap_samples, "seed": options.seed}
    agreement = evaluate_links(predicted_links, gold_links, sources=sources, targets=targets, **samples)
    return dataclasses.replace(result, word_links=agreement)


def _check_needed(
    names: Sequence[str], has_text: bool, is_compared: bool, links: Mapping[str, LinkSource | None]
) -> None:
    """Check that every argument has an effect, so that a mistake in typing does not go unnoticed."""
    if not has_text and is_compared:
        raise UsageError("baseline (--baseline) needs translations and references")
    for name, value in links.items():
        needed = has_text and "drop" in names and (is_compared or name != "baseline_links")
        if needed != (value is not None):
            problem = "is needed for" if needed else "has no effect without"
            other = "a baseline" if name == "baseline_links" and "drop" in names else "the metric drop"
            raise UsageError(f"{name} (--{name.replace('_', '-')}) {problem} {other}")


def _read_texts(
    hypotheses: TextSource, references: Any, options: FileOptions | None
) -> tuple[NamedText, list[NamedText]]:
    """Return the translations and the sets of references, from several files or from one."""
    if references is None:
        first, reference = read_parallel(hypotheses, None, ("hypotheses", "references"), options)
        return first, [reference]
    check_unused(options)
    outputs = NamedText.read(hypotheses, "hypotheses")
    items = references if isinstance(references, Path | str) else list(references)
    # Within a list, only a `Path` is a file: a string is a reference.
    if isinstance(items, list) and items and all(isinstance(item, list | tuple | Path) for item in items):
        return outputs, [NamedText.read(item, f"reference {number}") for number, item in enumerate(items, 1)]
    return outputs, [NamedText.read(items, "references")]


def _evaluate_texts(
    first: NamedText,
    truths: list[NamedText],
    sources: TextSource | None,
    names: Sequence[str],
    baseline: TextSource | None,
    links: Mapping[str, LinkSource | None],
    options: EvaluationOptions,
) -> Evaluation:
    """Return the scores of translations by each metric; see `evaluate`."""
    drop_links = {name: part for name, part in links.items() if part is not None}
    other = None if baseline is None else NamedText.read(baseline, "baseline")
    source = None if sources is None else NamedText.read(sources, "sources")
    for text in (*truths, other, source):
        if text is not None:
            check_num_lines(text.name, len(text.lines), first.name, len(first.lines))
    systems = [first] if other is None else [first, other]
    # Links count the words of tokenized text, so they can be checked only if the text is tokenized.
    known = [text.lines if options.tokenize == "none" else None for text in (truths[0], *systems)]
    source_lines, lines = None if source is None else source.lines, (first.name, len(first.lines))
    data = MetricInput(
        # Both systems are counted in one call, because METEOR takes long to start.
        [line for text in systems for line in text.lines],
        [truth.lines * len(systems) for truth in truths],
        options.tokenize,
        options.lowercase,
        _read_drop_links(drop_links, source_lines, known, lines) if drop_links else None,
    )
    named = {"hypotheses": [first], "references": truths, "baseline": [other], "sources": [source]}
    files = {name: [text.file for text in texts if text and text.file] for name, texts in named.items()}
    files |= {name: [str(file)] for name, file in links.items() if isinstance(file, Path | str)}
    return Evaluation(
        {name: _score(name, data, len(systems), options) for name in names},
        tuple(first.lines),
        tuple(tuple(truth.lines) for truth in truths),
        None if source is None else tuple(source.lines),
        options,
        {name: paths for name, paths in files.items() if paths},
        notes=tokenized_notes({system.name: system.lines for system in systems}, options.tokenize)
        if "bleu" in names
        else (),
    )


def _score(name: str, data: MetricInput, num_systems: int, options: EvaluationOptions) -> MetricScore:
    """Return the score of the first system by a metric, compared with the second if there are two."""
    metric = METRICS.get(name)
    assert metric is not None, name  # the caller has checked the name
    counts = metric.count(data)
    if len(counts.rows) != len(data.outputs):
        raise UsageError(
            f"metric {name!r}: {len(counts.rows)} rows of counts for {len(data.outputs)} sentences; "
            "expected one row per sentence"
        )
    rows, *others = np.split(counts.rows, num_systems)
    comparison, samples = None, (options.num_bootstrap_samples, options.seed)
    if others:
        paired = paired_bootstrap(others[0], rows, counts.aggregate, *samples)
        estimate = paired.other
        comparison = SystemComparison(paired.first, paired.difference, paired.p_value)
    else:
        estimate = bootstrap(rows, counts.aggregate, *samples)
    return MetricScore(
        name,
        metric.label,
        estimate.value,
        estimate.low,
        estimate.high,
        counts.signature,
        counts.aggregate(rows),
        comparison,
    )


def _metric_names(given: str | Iterable[str]) -> list[str]:
    """Return the names of metrics, each once, from a list or from a text with commas."""
    listed = given.split(",") if isinstance(given, str) else given
    # A repeated name would only compute the same metric again.
    names = list(dict.fromkeys(name for metric in listed if (name := str(metric).strip().lower())))
    if not names or not all(METRICS.get(name) for name in names):
        raise UsageError(f"metrics {given!r}: expected one or more of {', '.join(METRICS.names())}")
    return names


def tokenized_notes(texts: Mapping[str, Sequence[str]], tokenize: str) -> tuple[str, ...]:
    """Return a note for each text, by name, that seems to be tokenized although BLEU tokenizes it."""
    return tuple(
        f"{name}: many lines end in ' .', so the text may be tokenized. The tokenizer {tokenize} of "
        "BLEU expects detokenized text. Use --tokenize none for tokenized text."
        for name, lines in texts.items()
        if tokenize != "none" and looks_tokenized(lines)
    )


def evaluate_links(
    links: LinkSource,
    gold: Path | str | Iterable[GoldLinks | str],
    *,
    sources: TextSource | None = None,
    targets: TextSource | None = None,
    num_bootstrap_samples: int = 1000,
    seed: int = 0,
) -> LinkEvaluation:
    """Compare word links with gold links: precision, recall and alignment error rate (Och & Ney, 2003).

    Args:
        links: The links to evaluate.
        gold: A file in the `.talp` format (`i-j` sure, `ipj` possible), or the gold links of each pair.
        sources: The source sentences, whose words the links must not exceed.
        targets: The target sentences, likewise.
        num_bootstrap_samples: Number of bootstrap samples of the interval.
        seed: Random seed of the bootstrap.

    Raises:
        DataError: if a file cannot be read, the numbers of pairs differ, or a link points beyond its
            sentence.
    """
    sides = {"source": sources, "target": targets}
    texts = {side: NamedText.read(text, f"{side}s") for side, text in sides.items() if text is not None}
    lengths = {side: count_words(text.lines) for side, text in texts.items()}
    truth, gold_name = read_links(gold, "gold", parse_gold_links)
    predicted, name = read_links(links, "links", parse_links)
    # Different lengths are reported first: the links of unrelated texts would give misleading errors.
    check_num_lines(name, len(predicted), gold_name, len(truth))
    for text in texts.values():
        check_num_lines(text.name, len(text.lines), gold_name, len(truth))
    # Sure links are possible links as well.
    check_rows([true.possible for true in truth], lengths, gold_name)
    check_rows(predicted, lengths, name)
    score = alignment_score(predicted, truth)
    error = bootstrap(count_links(predicted, truth), aer_from_counts, num_bootstrap_samples, seed)
    return LinkEvaluation(
        len(truth), score.precision, score.recall, score.aer, float(error.low), float(error.high)
    )


def _read_drop_links(
    links: Mapping[str, LinkSource],
    sources: Sequence[str] | None,
    texts: Sequence[Sequence[str] | None],
    lines: tuple[str, int],
) -> tuple[list[Links], list[Links]]:
    """Return for DROP the links of the references, repeated for each system, and those of all systems."""
    parts: list[list[Links]] = []
    for (name, link_source), text in zip(links.items(), texts, strict=True):
        link_sets, name = read_links(link_source, name, parse_links)
        check_num_lines(name, len(link_sets), *lines)
        sides = {"source": sources, "target": text}
        check_rows(link_sets, {side: count_words(part) for side, part in sides.items() if part}, name)
        parts.append(link_sets)
    reference, *systems = parts
    # DROP of each system is computed against the same links of the reference.
    return reference * len(systems), [link_set for part in systems for link_set in part]
