"""`regard evaluate`: score translations against references and word links against gold links."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.link_files import LinkFiles
from regard.cli.output import write_json
from regard.data.whitespace import split_whitespace
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.api.evaluation import MetricScore

__all__ = ["evaluate_command"]

REP_PARAMETERS = "2,1,2"
"""Default n, lambda1 and lambda2 of REP (Malaviya et al. 2018)."""


def evaluate_command(
    hypothesis: Annotated[
        Path | None,
        typer.Argument(help="Translations, one per line, plain or gzip.", show_default=False),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Argument(help="One or more files with reference translations.", show_default=False),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="Translations of another system. The difference is tested for significance."),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics, separated by commas: bleu, chrf, ter, rep, drop, meteor (English only, needs "
            "Java), accuracy (share of exactly correct lines), edits (character edit distance)."
        ),
    ] = "bleu,chrf,ter",
    tokenize: Annotated[
        str,
        typer.Option(
            help="Tokenizer for BLEU and REP: 13a, none (the text is already tokenized), intl, char, zh, "
            "ja-mecab or ko-mecab."
        ),
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case. TER and METEOR always ignore it.")
    ] = False,
    reference_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links (i-j) of source and reference.")
    ] = None,
    hypothesis_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and HYPOTHESIS.")
    ] = None,
    baseline_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and --baseline.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Source text of the word links. Links beyond the words of a line are an error."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            help="With --gold-links: target text of the word links. Links beyond the words of a line "
            "are an error."
        ),
    ] = None,
    rep_parameters: Annotated[
        str,
        typer.Option(help="For REP: n-gram order, weight of repeated n-grams, and weight of doubled words."),
    ] = REP_PARAMETERS,
    sentence_scores: Annotated[
        Path | None, typer.Option(help="Output file for the scores of each sentence, tab-separated.")
    ] = None,
    gold_links: Annotated[
        Path | None, typer.Option(help="File with gold word links (.talp: i-j sure, ipj possible).")
    ] = None,
    predicted_links: Annotated[
        Path | None, typer.Option(help="File with word links (i-j) to score against --gold-links.")
    ] = None,
    log_probs: Annotated[
        Path | None,
        typer.Option(
            help="File with token log-probabilities (`regard score --token-scores`), for the perplexity."
        ),
    ] = None,
    num_bootstrap_samples: Annotated[
        int, typer.Option(help="Number of bootstrap samples.", min=2, max=1_000_000)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.", min=0, max=4_294_967_295)] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
    ] = None,
) -> None:
    """Score translations and word links, with 95 % confidence intervals.

    Intervals and p-values are computed by (paired) bootstrap resampling (Koehn 2004). The p-values are
    two-sided: twice the share of bootstrap samples in which the better system is not better. Those of
    sacreBLEU are one-sided and computed from centered differences, so do not compare the two. BLEU with
    `--tokenize none` is the tokenized BLEU of many papers. Lower is better for TER, AER, REP and DROP.
    REP is the number of repetitions per 100 words of the reference. DROP is the share of source words that
    are covered by the reference but not by the output (Malaviya et al. 2018).

    Example: regard evaluate output.txt reference.txt --baseline baseline.txt --json scores.json
    """
    if hypothesis is None and gold_links is None and predicted_links is None and log_probs is None:
        raise UsageError(
            "there is nothing to evaluate: give HYPOTHESIS REFERENCE, --gold-links and --predicted-links, "
            "or --log-probs"
        )
    if (gold_links is None) != (predicted_links is None):
        raise UsageError("--gold-links and --predicted-links need each other: give both or neither")
    if baseline is not None and hypothesis is None:
        raise UsageError("--baseline needs HYPOTHESIS and REFERENCE for a comparison")
    link_files = LinkFiles(reference_links, hypothesis_links, baseline_links, source)
    if hypothesis is None:
        link_files.check(False, False)
        if sentence_scores is not None:
            raise UsageError("--sentence-scores needs HYPOTHESIS and REFERENCE")
    # An option without effect is an error: otherwise a typing mistake could go unnoticed.
    if target is not None and gold_links is None:
        raise UsageError("--target has no effect without --gold-links")
    if source is not None and gold_links is None and "drop" not in _metrics(metrics):
        raise UsageError("--source has no effect without --metrics drop or --gold-links")
    results: dict[str, Any] = {}
    if hypothesis is not None:
        if not reference:
            raise UsageError(f"there is no reference for {hypothesis}: give HYPOTHESIS REFERENCE")
        names = _metrics(metrics)
        from regard.api.evaluation import EvaluationOptions, score_systems
        from regard.metrics.translation import check_tokenizer

        # Check the name before any file is read.
        check_tokenizer(tokenize)
        if len(reference) > 1 and {"rep", "drop"} & set(names):
            raise UsageError(
                f"--metrics {metrics}: REP and DROP need exactly one reference, but {len(reference)} are "
                "given"
            )
        link_files.check("drop" in names, baseline is not None)
        if rep_parameters != REP_PARAMETERS and "rep" not in names:
            raise UsageError("--rep-parameters has no effect without --metrics rep")
        options = EvaluationOptions(
            tokenize, lowercase, _repetition(rep_parameters), num_bootstrap_samples, seed
        )

        def score(systems: Any, references: Any, drops: Any) -> "dict[str, MetricScore]":
            return score_systems(systems, references, names, drops, options)

        sampling = {"resamples": num_bootstrap_samples, "seed": seed}
        results |= sampling | _translation(
            hypothesis, reference, baseline, names, tokenize, link_files, score, sentence_scores
        )
    if gold_links is not None and predicted_links is not None:
        results |= _alignment(gold_links, predicted_links, source, target, num_bootstrap_samples, seed)
    if log_probs is not None:
        results |= _perplexity(log_probs)
    _show(results)
    write_json(json_file, results)


def _metrics(text: str) -> list[str]:
    from regard.metrics.base import METRICS

    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names or not all(METRICS.get(name) for name in names):
        raise UsageError(
            f"--metrics {text!r}: expected one or more of {', '.join(METRICS.names())}, separated by commas"
        )
    return names


def _repetition(text: str) -> tuple[int, float, float]:
    """Return n, lambda1 and lambda2."""
    fields = text.split(",")
    try:
        n, lambda1, lambda2 = int(fields[0]), *map(float, fields[1:])
    except ValueError:
        raise UsageError(
            f"--rep-parameters {text!r}: expected three numbers separated by commas, for example 2,1,2"
        ) from None
    return n, lambda1, lambda2


def _translation(
    hypothesis: Path,
    references: list[Path],
    other: Path | None,
    names: list[str],
    tokenize: str,
    link_files: LinkFiles,
    score: "Callable[..., dict[str, MetricScore]]",
    sentences: Path | None,
) -> dict[str, Any]:
    """Return the scores of a file with translations and, if it is given, of the other system."""
    from dataclasses import asdict

    first = _read(hypothesis)
    truths = [_read_parallel(path, hypothesis, len(first)) for path in references]
    second = None if other is None else _read_parallel(other, hypothesis, len(first))
    if "bleu" in names:
        _warn_if_tokenized(hypothesis, first, tokenize)
        if other is not None and second is not None:
            _warn_if_tokenized(other, second, tokenize)
    systems = [first] if second is None else [first, second]
    drops = None
    if "drop" in names:
        # Links count the words of tokenized text, so they can be checked only if the files are tokenized.
        known = tokenize == "none"
        drops = link_files.read(
            truths[0] if known else None, [text if known else None for text in systems], len(first)
        )

    results: dict[str, Any] = {
        "hypothesis": str(hypothesis),
        "references": [str(path) for path in references],
    }
    if other is not None:
        results["other"] = str(other)
    results |= link_files.to_dict()
    results |= {"sentences": len(first)}
    intervals, signatures, comparison = {}, {}, {}
    found = score(systems, truths, drops=drops)
    if sentences is not None:
        _write_sentences(sentences, found)
    for name, one in found.items():
        signatures[name] = one.signature
        results[name] = one.score
        intervals[name] = [one.low, one.high]
        if one.comparison is not None:
            comparison[name] = asdict(one.comparison)
    results |= {"intervals": intervals, "signatures": signatures}
    return results | ({"comparison": comparison} if comparison else {})


def _write_sentences(path: Path, found: "dict[str, MetricScore]") -> None:
    """Write one row per sentence: its number, and its scores as if it were the whole text."""
    from regard.cli.output import open_output

    with open_output(path) as file:
        file.write("\t".join(["sentence", *found]) + "\n")
        for number, row in enumerate(
            zip(*(one.sentence_scores.tolist() for one in found.values()), strict=True), 1
        ):
            file.write("\t".join([str(number), *(f"{value:.4f}" for value in row)]) + "\n")


def _alignment(
    gold: Path, links: Path, source: Path | None, target: Path | None, resamples: int, seed: int
) -> dict[str, Any]:
    """Return precision, recall and AER of a file with links."""
    from regard.api.alignment import evaluate_links

    found = evaluate_links(
        links, gold, sources=source, targets=target, num_bootstrap_samples=resamples, seed=seed
    )
    return {
        "links": str(links),
        "gold": str(gold),
        "pairs": found.num_pairs,
        "precision": found.precision,
        "recall": found.recall,
        "aer": found.aer,
        "aer_interval": [found.aer_low, found.aer_high],
    }


def _read(path: Path) -> list[str]:
    from regard.data.corpus import read_lines

    return list(read_lines(path))


def _read_parallel(path: Path, other: Path, expected: int) -> list[str]:
    lines = _read(path)
    if len(lines) != expected:
        raise DataError(
            f"{path} has {len(lines)} lines but {other} has {expected}: parallel files must have the same "
            "number of lines"
        )
    return lines


def _warn_if_tokenized(path: Path, lines: list[str], tokenize: str) -> None:
    from regard.metrics.translation import looks_tokenized

    if tokenize == "none" or not looks_tokenized(lines):
        return
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(
        f"{path}: many lines end in ' .', so the text may be tokenized. The tokenizer {tokenize} of BLEU "
        "expects detokenized text. Use --tokenize none for tokenized text."
    )


def _perplexity(path: Path) -> dict[str, Any]:
    """Return exp of the negative mean log-probability of the tokens, end symbols included."""
    total, tokens = 0.0, 0
    for number, line in enumerate(_read(path), 1):
        for field in split_whitespace(line):
            # A token may contain "|", so split at the last one.
            name, separator, value = field.rpartition("|")
            try:
                log_prob = float(value)
                if not separator or not name or not log_prob <= 0:
                    raise ValueError
                total += log_prob
            except ValueError:
                raise DataError(
                    f"{path}:{number}: {field!r} does not have the form TOKEN|LOG-PROBABILITY written by "
                    "`regard score --token-scores`"
                ) from None
            tokens += 1
    if not tokens:
        raise DataError(f"{path}: the file contains no tokens")
    if total / tokens <= -700:
        raise DataError(
            f"{path}: the perplexity cannot be computed: the mean log-probability is {total / tokens:g}"
        )
    return {"perplexity": math.exp(-total / tokens), "tokens": tokens}


def _show(results: dict[str, Any]) -> None:
    """Print a table on a terminal, and tab-separated lines otherwise."""
    console = Console(highlight=False, markup=False)
    rows = _rows(results)
    if not console.is_terminal:
        print("\n".join("\t".join(row) for row in (list(rows[0]), *(row.values() for row in rows))))
        return
    columns = [column for column in rows[0] if column != "signature"]
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == "metric" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    console.print(table)
    for row in rows:
        if row.get("signature"):
            console.print(f"{row['metric']} {row['signature']}", style="dim", soft_wrap=True)


def _rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return one row of cells per score. All rows have the same columns."""
    from regard.metrics.base import METRICS

    rows = []
    for name in results.get("intervals", {}):
        row = {
            "metric": metric.label if (metric := METRICS.get(name)) else name,
            "score": f"{results[name]:.2f}",
            "95 %": _interval(results["intervals"][name]),
        }
        compared = results.get("comparison", {}).get(name)
        if compared:
            other, difference = compared["baseline"], compared["difference"]
            row |= {
                "other": f"{other['value']:.2f}",
                "diff.": f"{difference['value']:+.2f}",
                "95 % of diff.": _interval([difference["low"], difference["high"]]),
                "p": f"{compared['p_value']:.3f}",
            }
        rows.append(row | {"signature": results["signatures"][name]})
    for name, label in (("precision", "precision %"), ("recall", "recall %"), ("aer", "AER %")):
        if name in results:
            interval = _interval([100 * end for end in results["aer_interval"]]) if name == "aer" else ""
            rows.append({"metric": label, "score": f"{100 * results[name]:.2f}", "95 %": interval})
    if "perplexity" in results:
        rows.append({"metric": "perplexity", "score": f"{results['perplexity']:.4f}"})
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column, "") for column in columns} for row in rows]


def _interval(ends: list[float]) -> str:
    return f"{ends[0]:.2f} to {ends[1]:.2f}"
