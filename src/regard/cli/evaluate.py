"""`regard evaluate`: score translations against references and word links against gold links."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.command import expand_groups
from regard.cli.options import (
    GoldLinksOption,
    JsonOption,
    LowercaseOption,
    NumBootstrapSamplesOption,
    ReferenceLinksOption,
    SeedOption,
    SentenceScoresOption,
    SourceFileOption,
    TokenizeOption,
)
from regard.cli.output import open_output, print_message, write_json, write_rows
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.api.evaluation import Evaluation, EvaluationOptions
    from regard.api.links import DropLinks

__all__ = ["evaluate_command"]

"""Default n, lambda1 and lambda2 of REP (Malaviya et al. 2018)."""


@dataclass(frozen=True)
class SystemFiles:
    """The translations of one or two systems and their references."""

    panel: ClassVar[str] = "Translations"

    hypothesis: Annotated[
        Path | None,
        typer.Argument(help="Translations, one per line, plain or compressed.", show_default=False),
    ] = None
    reference: Annotated[
        list[Path] | None,
        typer.Argument(help="One or more files with reference translations.", show_default=False),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(help="Translations of another system. The difference is tested for significance."),
    ] = None
    sentence_scores: SentenceScoresOption = None


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
    num_bootstrap_samples: NumBootstrapSamplesOption = 1000
    seed: SeedOption = 0

    def names(self) -> list[str]:
        """Return the names of the metrics.

        Raises:
            UsageError: If there is no such metric.
        """
        from regard.api.evaluation import metric_names

        return metric_names(self.metrics, "--metrics")

    def options(self) -> "EvaluationOptions":
        """Return the settings as those of `regard.evaluate`."""
        from regard.api.evaluation import EvaluationOptions

        return EvaluationOptions(self.tokenize, self.lowercase, self.num_bootstrap_samples, self.seed)


@dataclass(frozen=True)
class LinkFiles:
    """Files with word links of a source text with its reference and with the output of one or two systems."""

    panel: ClassVar[str] = "Word links"

    reference_links: ReferenceLinksOption = None
    hypothesis_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and HYPOTHESIS.")
    ] = None
    baseline_links: Annotated[
        Path | None, typer.Option(help="For DROP: file with word links of source and --baseline.")
    ] = None
    source: SourceFileOption = None

    def check(self, required: bool, has_baseline: bool) -> None:
        """Check that the required files are given, and no others.

        Args:
            required: Whether DROP is computed.
            has_baseline: Whether two systems are compared.

        Raises:
            UsageError: If a file is missing or not used.
        """
        options = {
            "--reference-links": (self.reference_links, required),
            "--hypothesis-links": (self.hypothesis_links, required),
            "--baseline-links": (self.baseline_links, required and has_baseline),
        }
        for option, (path, needed) in options.items():
            if needed and path is None:
                raise UsageError(
                    f"--metrics drop needs {option}: a file with word links i-j of the source and that text. "
                    "All link files must be written by the same aligner."
                )
            if path is not None and not needed:
                missing = "--baseline" if required else "--metrics drop"
                raise UsageError(f"{option} has no effect without {missing}")

    def drop_links(self) -> "DropLinks | None":
        """Return the files of the links for DROP, or None if there are none; `check` has checked them."""
        from regard.api.links import DropLinks

        if self.reference_links is None or self.hypothesis_links is None:
            return None
        return DropLinks(self.reference_links, self.hypothesis_links, self.baseline_links)


@dataclass(frozen=True)
class GoldFiles:
    """Files with gold links and with the links that are scored against them."""

    panel: ClassVar[str] = "Word links"

    gold_links: GoldLinksOption = None
    predicted_links: Annotated[
        Path | None, typer.Option(help="File with word links (i-j) to score against --gold-links.")
    ] = None
    target: Annotated[
        Path | None,
        typer.Option(
            help="With --gold-links: target text of the word links. Links beyond the words of a line are an "
            "error."
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Whether links are scored."""
        return self.gold_links is not None or self.predicted_links is not None

    def check(self) -> None:
        """Check that both files are given, or none.

        Raises:
            UsageError: If one of them is missing.
        """
        if (self.gold_links is None) != (self.predicted_links is None):
            raise UsageError("--gold-links and --predicted-links need each other: give both or neither")
        if self.target is not None and self.gold_links is None:
            raise UsageError("--target has no effect without --gold-links")


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

    from regard.api.evaluation import Evaluation, evaluate
    from regard.api.links import evaluate_links
    from regard.api.score_totals import read_token_scores

    options = metrics.options()
    result = Evaluation(options=options)
    if systems.hypothesis is not None:
        _check(systems, metrics, links)
        result = evaluate(
            systems.hypothesis,
            systems.reference or [],
            links.source,
            metrics=metrics.metrics,
            baseline=systems.baseline,
            links=links.drop_links(),
            options=options,
        )
    if gold.predicted_links is not None and gold.gold_links is not None:
        agreement = evaluate_links(
            gold.predicted_links,
            gold.gold_links,
            sources=links.source,
            targets=gold.target,
            num_bootstrap_samples=metrics.num_bootstrap_samples,
            seed=metrics.seed,
        )
        result = replace(result, word_links=agreement)
    if log_probs is not None:
        result = replace(result, token_scores=read_token_scores(log_probs))
    for note in result.notes:
        print_message(note)
    if systems.sentence_scores is not None:
        _write_sentences(systems.sentence_scores, result)
    _show(result)
    write_json(json_file, result.to_dict())


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


def _write_sentences(path: Path, result: "Evaluation") -> None:
    """Write one row per sentence: its number, and its scores as if it were the whole text."""
    with open_output(path) as file:
        cells = ([row["sentence"], *(f"{row[name]:.4f}" for name in result)] for row in result.sentences())
        write_rows(file, [["sentence", *result], *cells])


def _show(result: "Evaluation") -> None:
    """Print a table on a terminal, and tab-separated lines otherwise."""
    console = Console(highlight=False, markup=False)
    rows = _rows(result)
    if not console.is_terminal:
        with open_output(None) as file:
            write_rows(file, [list(rows[0]), *(row.values() for row in rows)])
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


def _rows(result: "Evaluation") -> list[dict[str, str]]:
    """Return one row of cells per score. All rows have the same columns."""
    rows = []
    for metric in result.values():
        row = {
            "metric": metric.label,
            "score": f"{metric.score:.2f}",
            "95 %": _interval(metric.low, metric.high),
        }
        if metric.comparison is not None:
            difference = metric.comparison.difference
            row |= {
                "baseline": f"{metric.comparison.baseline.value:.2f}",
                "diff.": f"{difference.value:+.2f}",
                "95 % of diff.": _interval(difference.low, difference.high),
                "p": f"{metric.comparison.p_value:.3f}",
            }
        rows.append(row | {"signature": metric.signature})
    if (links := result.word_links) is not None:
        shares = {"precision %": links.precision, "recall %": links.recall, "AER %": links.aer}
        rows += [
            {"metric": label, "score": f"{100 * share:.2f}", "95 %": ""} for label, share in shares.items()
        ]
        rows[-1]["95 %"] = _interval(100 * links.aer_low, 100 * links.aer_high)
    if result.token_scores is not None:
        rows.append({"metric": "perplexity", "score": f"{result.token_scores.perplexity:.4f}"})
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column, "") for column in columns} for row in rows]


def _interval(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}"
