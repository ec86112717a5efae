"""The tables of `regard reproduce`: their metrics, their rows with recipes, and the numbers of the papers.

A label that ends with "(ours)" marks a row that its paper does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LENGTH_BINS", "PAPER_TABLES", "Row", "Table", "TableMetric"]


LENGTH_BINS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+")
"""The bins of source lengths of Indurthi et al. (2019), Table 2."""


@dataclass(frozen=True)
class TableMetric:
    """A column of a table.

    Attributes:
        name: The key in `METRIC_FUNCTIONS` of `regard.extensions.reproduce.scores`.
        label: The heading of the column.
        higher_is_better: Whether higher scores are better.
    """

    name: str
    label: str
    higher_is_better: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: The name of the row in the paper.
        recipe: The file name of the recipe, without `.toml`.
        model: The recipe of the model, if the row differs from another row in the search only. Default: that
            of the row.
        init_from: The recipe whose trained weights initialize the model. Default: random initialization.
        ensemble_size: The number of models in the ensemble; they have the seed of the row and the following
            seeds.
        tune_penalties: Whether the length and coverage penalties are tuned on the validation text.
        published: The paper's numbers, by language pair and then by metric name.
    """

    label: str
    recipe: str
    model: str = ""
    init_from: str = ""
    ensemble_size: int = 1
    tune_penalties: bool = False
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def model_recipe(self) -> str:
        """The recipe of the model."""
        return self.model or self.recipe


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        name: The name of the table for `regard reproduce`.
        title: The paper, the number of the table and its subject.
        recipes: The directory of the recipes.
        metrics: The columns.
        rows: The rows; all others are compared with the first.
        text_kind: The kind of text: `parallel` text that is tokenized and lowercased, unchanged parallel text
            (`raw`), `tables` of inflected forms, or parallel text with `gold` word links for testing.
        published_pair: The language pair of the paper's numbers, if they apply to data of any language pair.
        has_sizes: Whether the recipes have the sizes `small` and `paper`.
    """

    name: str
    title: str
    recipes: str
    metrics: tuple[TableMetric, ...]
    rows: tuple[Row, ...]
    text_kind: Literal["parallel", "raw", "tables", "gold"] = "parallel"
    published_pair: str | None = None
    has_sizes: bool = True


def _published(
    columns: Sequence[TableMetric], numbers: Mapping[str, Sequence[float | None]]
) -> dict[str, dict[str, float]]:
    """Return the numbers of a row by language pair and metric; None stands for a number that is missing."""
    return {
        pair: {
            column.name: number for column, number in zip(columns, printed, strict=True) if number is not None
        }
        for pair, printed in numbers.items()
    }


REP = TableMetric("rep", "REP", higher_is_better=False)
_MALAVIYA2018_COLUMNS = (
    TableMetric("bleu", "BLEU"),
    TableMetric("meteor", "METEOR"),
    REP,
    TableMetric("drop", "DROP", higher_is_better=False),
)
# BLEU, METEOR, REP and DROP for German, Japanese and Romanian to English.
_MALAVIYA2018_TABLE1 = {
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


def _malaviya2018_row(label: str, numbers: Sequence[float]) -> Row:
    recipe = label.partition(" (")[0].replace(" + ", "-").lower()
    # The coverage penalty acts in search alone, so that such a row uses the model of the row without it.
    model = recipe.removesuffix("-covpenalty")
    pairs = {"de-en": numbers[:4], "ja-en": numbers[4:8], "ro-en": numbers[8:]}
    return Row(
        label,
        recipe,
        model="" if model == recipe else model,
        tune_penalties=model != recipe,
        published=_published(_MALAVIYA2018_COLUMNS, pairs),
    )


_MALAVIYA2018 = (
    Table(
        "malaviya2018-table1",
        "Malaviya et al. (2018), Table 1: attention mechanisms",
        "malaviya2018",
        _MALAVIYA2018_COLUMNS,
        tuple(_malaviya2018_row(label, numbers) for label, numbers in _MALAVIYA2018_TABLE1.items()),
    ),
    Table(
        "malaviya2018-table2",
        "Malaviya et al. (2018), Table 2: fertility strategies for constrained sparsemax",
        "malaviya2018",
        _MALAVIYA2018_COLUMNS,
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
    ),
)

_SHANKAR2019_COLUMNS = (
    TableMetric("perplexity", "PPL", higher_is_better=False),
    TableMetric("bleu-4", "BLEU, beam 4"),
    TableMetric("bleu-10", "BLEU, beam 10"),
)
# The recipe of each row, and perplexity and BLEU at beam sizes 4 and 10. The paper labels "vi-en" as IWSLT14,
# but the data are IWSLT15.
_SHANKAR2019_TABLE1: dict[str, tuple[str, dict[str, tuple[float | None, float, float]]]] = {
    "Soft": (
        "soft",
        {
            "de-en": (9.61, 28.6, 28.5),
            "en-de": (10.68, 24.2, 24.2),
            "en-vi": (10.27, 26.6, 26.4),
            "vi-en": (8.30, 24.7, 24.6),
            "ja-en": (12.46, 18.9, 18.5),
        },
    ),
    "Sparse": (
        "sparse",
        {
            "de-en": (9.85, 28.4, 28.0),
            "en-de": (10.89, 23.4, 23.3),
            "en-vi": (10.13, 26.6, 26.1),
            "vi-en": (8.48, 24.2, 23.9),
            "ja-en": (14.18, 17.5, 16.8),
        },
    ),
    "Variational": ("variational", {"de-en": (None, 29.8, 29.8), "en-de": (None, 25.2, 25.3)}),
    "Prior-Joint": (
        "prior",
        {
            "de-en": (8.47, 29.7, 29.6),
            "en-de": (8.72, 25.4, 25.3),
            "en-vi": (9.67, 27.4, 27.3),
            "vi-en": (7.57, 25.7, 25.6),
            "ja-en": (10.00, 20.6, 20.2),
        },
    ),
    "Postr-Joint": (
        "posterior",
        {
            "de-en": (8.51, 29.8, 29.7),
            "en-de": (8.60, 25.6, 25.4),
            "en-vi": (9.11, 27.6, 27.4),
            "vi-en": (7.34, 25.9, 25.8),
            "ja-en": (9.96, 20.5, 20.3),
        },
    ),
    "Mono-Postr-Joint": (
        "monotonic",
        {
            "de-en": (8.23, 30.0, 29.9),
            "en-de": (8.45, 25.7, 25.6),
            "en-vi": (9.52, 27.6, 27.3),
            "vi-en": (7.14, 25.9, 25.6),
            "ja-en": (9.98, 20.7, 20.5),
        },
    ),
    "Prox-Postr-Joint": (
        "proximity",
        {
            "de-en": (8.26, 29.8, 29.7),
            "en-de": (8.52, 25.6, 25.5),
            "en-vi": (9.59, 27.5, 27.3),
            "vi-en": (7.26, 25.9, 25.9),
            "ja-en": (9.78, 20.9, 20.5),
        },
    ),
    "Fusedmax (ours)": ("fusedmax", {}),
    "Prior-Joint with the remainder (ours)": ("prior-remainder", {}),
    "Postr-Joint with the remainder (ours)": ("posterior-remainder", {}),
}
_SHANKAR2019_TABLE2 = {
    "Soft": ("soft", 85.50, 94.91),
    "Hard-Mono": ("hard", 85.65, 95.31),
    "Prior-Joint": ("prior", 85.81, 95.52),
    "Postr-Joint": ("posterior", 85.88, 95.5),
    "Mono-Postr-Joint": ("monotonic", 86.87, 95.71),
    "Prox-Postr-Joint": ("proximity", 85.81, 95.4),
    "Wu & Cotterell (2019), exact (ours)": ("exact", None, None),
    "Wu & Cotterell (2019), exact, monotonic (ours)": ("exact-monotonic", None, None),
}
_SHANKAR2019_TABLE3 = {
    "Soft": 0.449,
    "Prior-Joint": 0.502,
    "Postr-Joint": 0.583,
    "Prior-Joint with the remainder (ours)": None,
    "Postr-Joint with the remainder (ours)": None,
}

_SHANKAR2019 = (
    Table(
        "shankar2019-table1",
        "Shankar & Sarawagi (2019), Table 1: translation",
        "shankar2019",
        _SHANKAR2019_COLUMNS,
        tuple(
            Row(label, recipe, published=_published(_SHANKAR2019_COLUMNS, numbers))
            for label, (recipe, numbers) in _SHANKAR2019_TABLE1.items()
        ),
    ),
    Table(
        "shankar2019-table2",
        "Shankar & Sarawagi (2019), Table 2: inflection",
        "shankar2019",
        (TableMetric("accuracy", "accuracy"), TableMetric("edits", "edits per word", higher_is_better=False)),
        tuple(
            Row(
                label,
                f"inflection-{recipe}",
                published={"de_noun": {"accuracy": noun}, "de_verb": {"accuracy": verb}}
                if noun and verb
                else {},
            )
            for label, (recipe, noun, verb) in _SHANKAR2019_TABLE2.items()
        ),
        text_kind="tables",
        has_sizes=False,
    ),
    Table(
        "shankar2019-table3",
        "Shankar & Sarawagi (2019), Table 3: alignment (the paper reports 1 - AER on other data)",
        "shankar2019",
        (TableMetric("aer", "AER", higher_is_better=False), TableMetric("one-minus-aer", "1 - AER")),
        tuple(
            Row(
                label,
                _SHANKAR2019_TABLE1[label][0],
                published={"de-en": {"aer": 100 * (1 - value), "one-minus-aer": 100 * value}}
                if value
                else {},
            )
            for label, value in _SHANKAR2019_TABLE3.items()
        ),
        text_kind="gold",
        published_pair="de-en",
    ),
)

_INDURTHI2019 = (
    Table(
        "indurthi2019-table1",
        "Indurthi et al. (2019), Table 1: hard attention",
        "indurthi2019",
        (TableMetric("sacrebleu", "BLEU (13a, cased)"),),
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
    ),
    # The paper shows curves without their values, so there are no numbers to compare with.
    Table(
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
    ),
)

# The numbers of Sutskever et al. (2014) as listed by Martins (2020): reversed sources and ensembles.
_SUTSKEVER2014 = Table(
    "sutskever2014",
    "Sutskever et al. (2014): without attention, reversed sources and ensembles",
    "sutskever2014",
    (TableMetric("bleu", "BLEU"),),
    tuple(
        Row(
            label,
            recipe,
            model="reversed" if size > 1 else "",
            ensemble_size=size,
            published={"en-fr": {"bleu": value}},
        )
        for label, recipe, size, value in (
            ("single forward LSTM, beam 12", "forward", 1, 26.17),
            ("single reversed LSTM, beam 12", "reversed", 1, 30.59),
            ("ensemble of 5 reversed LSTMs, beam 1", "ensemble5-beam1", 5, 33.00),
            ("ensemble of 2 reversed LSTMs, beam 12", "ensemble2-beam12", 2, 33.27),
            ("ensemble of 5 reversed LSTMs, beam 2", "ensemble5-beam2", 5, 34.50),
            ("ensemble of 5 reversed LSTMs, beam 12", "ensemble5-beam12", 5, 34.81),
        )
    ),
)

PAPER_TABLES = {
    table.name: table for table in (*_MALAVIYA2018, *_SHANKAR2019, *_INDURTHI2019, _SUTSKEVER2014)
}
"""The tables by name."""
