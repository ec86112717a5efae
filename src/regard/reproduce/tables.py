"""What a table of a paper is made of: rows that name recipes, and the numbers in print."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LENGTHS", "Metric", "Row", "Table"]


LENGTHS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+")
"""The groups of source lengths of Indurthi et al. (2019), Table 2."""


@dataclass(frozen=True)
class Metric:
    """A column of a table.

    Attributes:
        name: As in `SCORERS` of `regard.reproduce.scores`.
        label: As it is printed.
        higher_is_better: Which way is better.
    """

    name: str
    label: str
    higher_is_better: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: As the paper calls it.
        recipe: The name of its recipe's file.
        model: The recipe whose model it searches with; its own, unless it differs in search alone.
        start: The recipe whose trained weights its model starts from; none: from random ones.
        ensemble: How many models translate together: those of the row's seed and of the seeds after it.
        tune: Whether both penalties of search are tuned on validation text.
        printed: The paper's numbers, by language pair and then by the name of the metric.
    """

    label: str
    recipe: str
    model: str = ""
    start: str = ""
    ensemble: int = 1
    tune: bool = False
    printed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def trained(self) -> str:
        """The recipe of its model."""
        return self.model or self.recipe


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        name: As `regard reproduce` takes it.
        title: Paper, number and what it shows.
        recipes: The folder of its recipes.
        metrics: Its columns.
        rows: Its rows, the first of which others are compared with.
        text: What it is of: `parallel` text, cut into words and lowercased; the same as it is (`raw`);
            `tables` of forms; or parallel text tested on `gold` word links.
        printed_pair: The language pair of the paper's numbers, where there is one alone, whatever ours is.
        sized: Whether its recipes have sizes; else they are run as they are.
        picture: The command that draws it, where one does.
    """

    name: str
    title: str
    recipes: str
    metrics: tuple[Metric, ...]
    rows: tuple[Row, ...]
    text: Literal["parallel", "raw", "tables", "gold"] = "parallel"
    printed_pair: str | None = None
    sized: bool = True
    picture: str = ""
