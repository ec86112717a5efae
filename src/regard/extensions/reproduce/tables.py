"""The tables of `regard reproduce`, which are read from `tables.toml`."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal


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

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Table":
        """Return the table of an entry of `tables.toml`."""
        metrics = tuple(TableMetric(**metric) for metric in data["metrics"])
        rows = []
        for row in data["rows"]:
            published = {
                pair: {
                    metric.name: number
                    for metric, number in zip(metrics, numbers, strict=False)
                    if not math.isnan(number)
                }
                for pair, numbers in row.get("published", {}).items()
            }
            rows.append(Row(**{**row, "published": published}))
        return cls(**{**data, "metrics": metrics, "rows": tuple(rows)})


@cache
def paper_tables() -> dict[str, Table]:
    """Return the tables by name."""
    text = (files("regard.extensions.reproduce") / "tables.toml").read_text(encoding="utf-8")
    return {entry["name"]: Table.from_data(entry) for entry in tomllib.loads(text)["table"]}
