"""Tables 1 and 2 of Malaviya et al. (2018): attention mechanisms and fertility strategies."""

from regard.reproduce.tables import Row, Table, TableMetric

__all__ = ["MALAVIYA2018_TABLES"]

BLEU, METEOR = TableMetric("bleu", "BLEU"), TableMetric("meteor", "METEOR")
REP, DROP = (
    TableMetric("rep", "REP", higher_is_better=False),
    TableMetric("drop", "DROP", higher_is_better=False),
)
PAIRS = ("de-en", "ja-en", "ro-en")


# BLEU, METEOR, REP and DROP of each language pair, in the order of `PAIRS`.
_PUBLISHED = {
    "softmax": (29.51, 31.43, 3.37, 5.89, 20.36, 23.83, 13.48, 23.30, 29.67, 32.05, 2.45, 5.59),
    "softmax + COVPENALTY": (29.69, 31.53, 3.47, 5.74, 20.70, 24.12, 14.12, 22.79, 29.81, 32.15, 2.48, 5.49),
    "softmax + COVVECTOR": (29.63, 31.54, 2.93, 5.65, 21.53, 24.50, 11.07, 22.18, 30.08, 32.22, 2.42, 5.47),
    "sparsemax": (29.73, 31.54, 3.18, 5.90, 21.28, 24.25, 13.09, 22.40, 29.97, 32.12, 2.19, 5.60),
    "sparsemax + COVPENALTY": (
        29.83,
        31.60,
        3.24,
        5.79,
        21.64,
        24.49,
        13.36,
        21.91,
        30.07,
        32.20,
        2.20,
        5.47,
    ),
    "sparsemax + COVVECTOR": (29.22, 31.18, 3.13, 6.15, 21.35, 24.74, 10.11, 21.25, 29.30, 31.84, 2.18, 5.87),
    "csoftmax (c = 0.2)": (29.39, 31.33, 3.29, 5.86, 20.71, 24.00, 12.38, 22.73, 29.39, 31.83, 2.37, 5.64),
    "csparsemax (c = 0.2)": (29.85, 31.76, 2.67, 5.23, 21.31, 24.51, 11.40, 21.59, 29.77, 32.10, 1.98, 5.44),
}
MALAVIYA2018_METRICS = (BLEU, METEOR, REP, DROP)


def _row(label: str, numbers: tuple[float, ...]) -> Row:
    """Return a row of Table 1; rows with COVPENALTY use the model of the row without it."""
    recipe = label.partition(" (")[0].replace(" + ", "-").lower()
    names = [metric.name for metric in MALAVIYA2018_METRICS]
    printed = {
        pair: dict(zip(names, numbers[4 * place : 4 * place + 4], strict=True))
        for place, pair in enumerate(PAIRS)
    }
    penalized = recipe.endswith("-covpenalty")
    model = recipe.removesuffix("-covpenalty") if penalized else ""
    return Row(label, recipe, model=model, tune_penalties=penalized, published=printed)


MALAVIYA2018_TABLE1 = Table(
    "malaviya2018-table1",
    "Malaviya et al. (2018), Table 1: attention mechanisms",
    "malaviya2018",
    MALAVIYA2018_METRICS,
    tuple(_row(label, numbers) for label, numbers in _PUBLISHED.items()),
)

MALAVIYA2018_TABLE2 = Table(
    "malaviya2018-table2",
    "Malaviya et al. (2018), Table 2: fertility strategies for constrained sparsemax",
    "malaviya2018",
    MALAVIYA2018_METRICS,
    tuple(
        Row(label, recipe, published={"de-en": {"bleu": bleu, "meteor": meteor}})
        for label, recipe, bleu, meteor in (
            ("CONSTANT, f = 2", "csparsemax-constant2", 29.66, 31.60),
            ("CONSTANT, f = 3", "csparsemax-constant3", 29.64, 31.56),
            ("GUIDED", "csparsemax-guided", 29.56, 31.45),
            ("PREDICTED, c = 0", "csparsemax-predicted", 29.78, 31.60),
            ("PREDICTED, c = 0.2", "csparsemax", 29.85, 31.76),
        )
    ),
)

MALAVIYA2018_TABLES = (MALAVIYA2018_TABLE1, MALAVIYA2018_TABLE2)
