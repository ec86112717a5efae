"""`regard evaluate`: score translations against references and word links against gold links."""

from typing import TYPE_CHECKING

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.options import JsonOption, SentenceScoresOption
from regard.cli.output import open_output, print_message, write_json, write_rows, write_table
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.api.evaluation import Evaluation


@ApiCommand("regard.api.evaluation:evaluate", arguments=["hypotheses", "references"])
def evaluate_command(
    call: ApiCall, sentence_scores: SentenceScoresOption = None, json_file: JsonOption = None
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
    if sentence_scores is not None and "hypotheses" not in call.values:
        raise UsageError("--sentence-scores needs translations and references")
    result = call()
    for note in result.notes:
        print_message(note)
    if sentence_scores is not None:
        with open_output(sentence_scores) as file:
            cells = (
                [row["sentence"], *(f"{row[name]:.4f}" for name in result)] for row in result.sentences()
            )
            write_rows(file, [["sentence", *result], *cells])
    rows = _rows(result)
    with open_output(None) as file:
        # On a terminal, signatures are too long for a column, so they are printed below the table.
        columns = [column for column in rows[0] if column != "signature" or not file.is_terminal]
        write_table(file, [columns, *([row[column] for column in columns] for row in rows)])
        for row in rows if file.is_terminal else ():
            if row.get("signature"):
                file.write(f"{row['metric']} {row['signature']}\n")
    write_json(json_file, result)


def _rows(result: "Evaluation") -> list[dict[str, str]]:
    """Return one row of cells per score. All rows have the same columns."""
    rows = []
    for row in result.rows():
        cells = {
            "metric": row["label"],
            "score": f"{row['score']:.2f}",
            "95 %": f"{row['low']:.2f} to {row['high']:.2f}",
        }
        if "baseline" in row:
            cells |= {
                "baseline": f"{row['baseline']:.2f}",
                "diff.": f"{row['difference']:+.2f}",
                "95 % of diff.": f"{row['difference_low']:.2f} to {row['difference_high']:.2f}",
                "p": f"{row['p_value']:.3f}",
            }
        rows.append(cells | {"signature": row["signature"]})
    if (links := result.word_links) is not None:
        shares = {"precision %": links.precision, "recall %": links.recall, "AER %": links.aer}
        rows += [
            {"metric": label, "score": f"{100 * share:.2f}", "95 %": ""} for label, share in shares.items()
        ]
        rows[-1]["95 %"] = f"{100 * links.aer_low:.2f} to {100 * links.aer_high:.2f}"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column, "") for column in columns} for row in rows]
