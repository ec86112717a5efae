"""`regard evaluate`: score translations against references and word links against gold links."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.command import expand_groups
from regard.cli.link_files import GoldFiles, LinkFiles
from regard.cli.options import JsonOption, LowercaseOption, SeedOption, TokenizeOption
from regard.cli.output import open_output, print_message, write_json
from regard.data.whitespace import split_whitespace
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.api.evaluation import EvaluationOptions, MetricScore

__all__ = ["evaluate_command"]

REP_PARAMETERS = "2,1,2"
"""Default n, lambda1 and lambda2 of REP (Malaviya et al. 2018)."""


@dataclass(frozen=True)
class SystemFiles:
    """The translations of one or two systems and their references."""

    panel: ClassVar[str] = "Translations"

    hypothesis: Annotated[
        Path | None,
        typer.Argument(help="Translations, one per line, plain or gzip.", show_default=False),
    ] = None
    reference: Annotated[
        list[Path] | None,
        typer.Argument(help="One or more files with reference translations.", show_default=False),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(help="Translations of another system. The difference is tested for significance."),
    ] = None
    sentence_scores: Annotated[
        Path | None, typer.Option(help="Output file for the scores of each sentence, tab-separated.")
    ] = None


@dataclass(frozen=True)
class MetricOptions:
    """The metrics and their settings."""

    panel: ClassVar[str] = "Metrics"

    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics, separated by commas: bleu, chrf, ter, rep, drop, meteor (English only, needs "
            "Java), accuracy (share of exactly correct lines), edits (character edit distance)."
        ),
    ] = "bleu,chrf,ter"
    tokenize: TokenizeOption = "13a"
    lowercase: LowercaseOption = False
    rep_parameters: Annotated[
        str,
        typer.Option(help="For REP: n-gram order, weight of repeated n-grams, and weight of doubled words."),
    ] = REP_PARAMETERS
    num_bootstrap_samples: Annotated[
        int, typer.Option(help="Number of bootstrap samples.", min=2, max=1_000_000)
    ] = 1000
    seed: SeedOption = 0

    def names(self) -> list[str]:
        """Return the names of the metrics.

        Raises:
            UsageError: If there is no such metric.
        """
        from regard.metrics.base import METRICS

        # A repeated name would only compute the same metric again.
        names = list(dict.fromkeys(name.strip().lower() for name in self.metrics.split(",") if name.strip()))
        if not names or not all(METRICS.get(name) for name in names):
            raise UsageError(
                f"--metrics {self.metrics!r}: expected one or more of {', '.join(METRICS.names())}, "
                "separated by commas"
            )
        return names

    def options(self) -> "EvaluationOptions":
        """Return the settings as those of `regard.evaluate`.

        Raises:
            UsageError: If the parameters of REP are not numbers.
        """
        from regard.api.evaluation import EvaluationOptions

        fields = self.rep_parameters.split(",")
        try:
            # A wrong number of fields is a ValueError as well.
            n, lambda1, lambda2 = int(fields[0]), *map(float, fields[1:])
        except ValueError:
            raise UsageError(
                f"--rep-parameters {self.rep_parameters!r}: expected three numbers separated by commas, for "
                "example 2,1,2"
            ) from None
        rep = n, lambda1, lambda2
        return EvaluationOptions(self.tokenize, self.lowercase, rep, self.num_bootstrap_samples, self.seed)


@expand_groups
def evaluate_command(
    systems: SystemFiles,
    metrics: MetricOptions,
    links: LinkFiles,
    gold: GoldFiles,
    log_probs: Annotated[
        Path | None,
        typer.Option(
            help="File with token log-probabilities (`regard score --token-scores`), for the perplexity."
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Score translations and word links, with 95 % confidence intervals.

    Intervals and p-values are computed by (paired) bootstrap resampling (Koehn 2004). The p-values are
    two-sided: twice the share of bootstrap samples in which the better system is not better. Those of
    sacreBLEU are one-sided and computed from centered differences, so do not compare the two. BLEU with
    `--tokenize none` is the tokenized BLEU of many papers. Lower is better for TER, AER, REP and DROP.
    REP is the number of repetitions per 100 words of the reference. DROP is the share of source words that
    are covered by the reference but not by the output (Malaviya et al. 2018). TER and METEOR always ignore
    case.

    Example: regard evaluate output.txt reference.txt --baseline baseline.txt --json scores.json
    """
    if systems.hypothesis is None and not gold.given and log_probs is None:
        raise UsageError(
            "there is nothing to evaluate: give HYPOTHESIS REFERENCE, --gold-links and --predicted-links, "
            "or --log-probs"
        )
    _check_unused(systems, metrics, links, gold)
    results: dict[str, Any] = {}
    if systems.hypothesis is not None:
        _check(systems, metrics, links)
        results |= {"resamples": metrics.num_bootstrap_samples, "seed": metrics.seed}
        results |= _translation(systems, metrics, links)
    if gold.given:
        results |= gold.evaluate(links.source, metrics.num_bootstrap_samples, metrics.seed)
    if log_probs is not None:
        results |= _perplexity(log_probs)
    _show(results)
    write_json(json_file, results)


def _check_unused(systems: SystemFiles, metrics: MetricOptions, links: LinkFiles, gold: GoldFiles) -> None:
    """Check that every option has an effect: otherwise a typing mistake could go unnoticed.

    Raises:
        UsageError: If one has none; names it.
    """
    gold.check()
    if systems.hypothesis is None:
        if systems.baseline is not None:
            raise UsageError("--baseline needs HYPOTHESIS and REFERENCE for a comparison")
        links.check(False, False)
        if systems.sentence_scores is not None:
            raise UsageError("--sentence-scores needs HYPOTHESIS and REFERENCE")
    if links.source is not None and not gold.given and "drop" not in metrics.names():
        raise UsageError("--source has no effect without --metrics drop or --gold-links")


def _check(systems: SystemFiles, metrics: MetricOptions, links: LinkFiles) -> None:
    """Check the options of translations before any file is read.

    Raises:
        UsageError: If one is missing or does not apply.
    """
    from regard.metrics.translation import check_tokenizer

    if not systems.reference:
        raise UsageError(f"there is no reference for {systems.hypothesis}: give HYPOTHESIS REFERENCE")
    names = metrics.names()
    check_tokenizer(metrics.tokenize)
    if len(systems.reference) > 1 and {"rep", "drop"} & set(names):
        raise UsageError(
            f"--metrics {metrics.metrics}: REP and DROP need exactly one reference, but "
            f"{len(systems.reference)} are given"
        )
    links.check("drop" in names, systems.baseline is not None)
    if metrics.rep_parameters != REP_PARAMETERS and "rep" not in names:
        raise UsageError("--rep-parameters has no effect without --metrics rep")


def _translation(systems: SystemFiles, metrics: MetricOptions, links: LinkFiles) -> dict[str, Any]:
    """Return the scores of a file with translations and, if it is given, of the other system."""
    from dataclasses import asdict

    from regard.api.evaluation import score_systems

    assert systems.hypothesis is not None and systems.reference is not None
    paths = [systems.hypothesis, *([] if systems.baseline is None else [systems.baseline])]
    first = _read(systems.hypothesis)
    references = [_read_parallel(path, systems.hypothesis, len(first)) for path in systems.reference]
    outputs = [first, *(_read_parallel(path, systems.hypothesis, len(first)) for path in paths[1:])]
    names = metrics.names()
    if "bleu" in names:
        for path, lines in zip(paths, outputs, strict=True):
            _warn_if_tokenized(path, lines, metrics.tokenize)
    drops = None
    if "drop" in names:
        # Links count the words of tokenized text, so they can be checked only if the files are tokenized.
        known = metrics.tokenize == "none"
        texts = outputs if known else [None] * len(outputs)
        drops = links.read(references[0] if known else None, texts, len(first))
    found = score_systems(outputs, references, names, drops, metrics.options())
    if systems.sentence_scores is not None:
        _write_sentences(systems.sentence_scores, found)
    results: dict[str, Any] = {
        "hypothesis": str(systems.hypothesis),
        "references": [str(path) for path in systems.reference],
    }
    results |= {} if systems.baseline is None else {"other": str(systems.baseline)}
    results |= {**links.to_dict(), "sentences": len(first)}
    results |= {name: one.score for name, one in found.items()}
    results["intervals"] = {name: [one.low, one.high] for name, one in found.items()}
    results["signatures"] = {name: one.signature for name, one in found.items()}
    comparison = {name: asdict(one.comparison) for name, one in found.items() if one.comparison is not None}
    return results | ({"comparison": comparison} if comparison else {})


def _write_sentences(path: Path, found: "dict[str, MetricScore]") -> None:
    """Write one row per sentence: its number, and its scores as if it were the whole text."""
    with open_output(path) as file:
        file.write("\t".join(["sentence", *found]) + "\n")
        for number, row in enumerate(
            zip(*(one.sentence_scores.tolist() for one in found.values()), strict=True), 1
        ):
            file.write("\t".join([str(number), *(f"{value:.4f}" for value in row)]) + "\n")


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
    print_message(
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
                # A log-probability is at most 0. The negated comparison also rejects NaN.
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
    # `exp` overflows above 709.
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
    # Signatures are too long for a column, so they are printed below the table.
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
