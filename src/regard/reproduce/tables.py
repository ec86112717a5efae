"""The description of a table of a paper: its metrics, rows with recipes, and the paper's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LENGTH_BINS", "Row", "Table", "TableMetric"]


LENGTH_BINS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+")
"""The bins of source lengths of Indurthi et al. (2019), Table 2."""


@dataclass(frozen=True)
class TableMetric:
    """A column of a table.

    Attributes:
        name: The key in `METRIC_FUNCTIONS` of `regard.reproduce.scores`.
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
        plot_command: The command that plots the table, if any.
    """

    name: str
    title: str
    recipes: str
    metrics: tuple[TableMetric, ...]
    rows: tuple[Row, ...]
    text_kind: Literal["parallel", "raw", "tables", "gold"] = "parallel"
    published_pair: str | None = None
    has_sizes: bool = True
    plot_command: str = ""
