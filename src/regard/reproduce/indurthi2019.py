"""Table 1 and Figure 2 of Indurthi et al. (2019): hard attention, and BLEU by source length."""

from regard.reproduce.tables import LENGTH_BINS, Row, Table, TableMetric

__all__ = ["INDURTHI2019_TABLES"]

BLEU = TableMetric("sacrebleu", "BLEU (13a, cased)")

INDURTHI2019_TABLE1 = Table(
    "indurthi2019-table1",
    "Indurthi et al. (2019), Table 1: hard attention",
    "indurthi2019",
    (BLEU,),
    tuple(
        Row(
            label,
            recipe,
            init_from=start,
            published={pair: {"sacrebleu": value} for pair, value in printed.items()},
        )
        for label, recipe, start, printed in (
            ("Transformer", "soft", "", {"en-de": 28.40, "en-fr": 41.00}),
            ("+ sequence loss", "sequence", "soft", {"en-de": 28.75, "en-fr": 41.47}),
            ("+ localness", "localness", "", {"en-de": 28.89}),
            ("hard attention", "hard", "", {"en-de": 29.29, "en-fr": 42.26}),
            ("hard attention, from the Transformer", "hard-soft", "soft", {}),  # not in the paper
        )
    ),
    text_kind="raw",
)

# The paper shows curves without their values, so there are no numbers to compare with.
INDURTHI2019_FIGURE2 = Table(
    "indurthi2019-figure2",
    "Indurthi et al. (2019), Figure 2: BLEU by the number of source words",
    "indurthi2019",
    tuple(TableMetric(f"sacrebleu:{label}", label) for label in LENGTH_BINS),
    (
        Row("soft (TSA)", "soft"),
        Row("hard (THA)", "hard"),
        Row("hard, from soft", "hard-soft", init_from="soft"),  # not in the paper
    ),
    text_kind="raw",
    plot_command="--json FILE, then regard figures length --input FILE",
)

INDURTHI2019_TABLES = (INDURTHI2019_TABLE1, INDURTHI2019_FIGURE2)
