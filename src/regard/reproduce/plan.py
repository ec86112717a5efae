"""What is to be run for a table: models, each with the rows that search with it, as plain data in files.

OUT/text/                       see `regard.reproduce.texts`
OUT/prepared/                   the text as models read it
OUT/runs/MODEL-DIGEST-seedN/    model folders; DIGEST is that of all that matters to training
OUT/runs/MODEL-DIGEST-seedN.log what the run said
OUT/rows/ROW-DIGEST-seedN.*     translations (txt), figures (json), counts (safetensors)
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import from_dict, set_option, to_dict
from regard.errors import UsageError
from regard.experiment import RunConfig
from regard.reproduce.tables import Row, Table, recipes_folder
from regard.reproduce.texts import ExperimentText

__all__ = ["SIZES", "Job", "RowJob", "overlaid", "plan"]

SIZES = ("small", "paper")
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class RowJob:
    """One row for one seed.

    Attributes:
        recipe: The name of its recipe.
        stem: Its files without their endings.
        digest: Of all that matters to its figures.
        search: The settings of its search.
        tune: The penalties to choose from on validation text; none: they stay as they are.
    """

    recipe: str
    stem: str
    digest: str
    search: dict[str, Any]
    tune: tuple[float, ...]

    def path(self, ending: str) -> Path:
        """One of its files."""
        return Path(f"{self.stem}.{ending}")

    def figures(self) -> dict[str, Any] | None:
        """Its figures, where it is finished."""
        try:
            found = json.loads(self.path("json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found if found["digest"] == self.digest else None


@dataclass(frozen=True)
class Job:
    """A model for one seed, and the rows that search with it.

    Attributes:
        model: The recipe of the model.
        seed: The run's seed.
        config: The run's config, as plain data.
        folder: The model folder.
        text: Where the experiment's text is.
        split: The part of it that is tested on.
        metrics: What is to be scored.
        rows: The rows.
    """

    model: str
    seed: int
    config: dict[str, Any]
    folder: str
    text: str
    split: str
    metrics: tuple[str, ...]
    rows: tuple[RowJob, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.model} seed {self.seed}"

    def open_rows(self) -> list[RowJob]:
        """The rows that lack a figure."""
        found = ((row, row.figures()) for row in self.rows)
        return [row for row, own in found if own is None or not set(self.metrics) <= set(own["scores"])]

    def write(self, path: Path) -> None:
        """Write it for the process that runs it."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Job":
        """Read what `write` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(RowJob(**{**row, "tune": tuple(row["tune"])}) for row in found["rows"])
        return cls(**{**found, "metrics": tuple(found["metrics"]), "rows": rows})


def plan(
    table: Table,
    out: Path,
    text: ExperimentText,
    size: str,
    seeds: Sequence[int],
    *,
    metrics: Sequence[str],
    rows: Sequence[str] = (),
    overrides: Sequence[str] = (),
    device: str = "auto",
    threads: int = 0,
) -> list[Job]:
    """The models of a table, seed by seed, and the rows of each.

    Args:
        table: The table.
        out: Where everything is kept.
        text: The text.
        size: `small` or `paper`.
        seeds: The seeds.
        metrics: What is to be scored.
        rows: The recipes of the rows wanted; none: all.
        overrides: Settings for every run, as `key=value`.
        device: As in a config.
        threads: For each run; 0: PyTorch's own choice.

    Raises:
        UsageError: if a row is not one of the table's, or the text lacks what the table tests on.
        ConfigError: if a recipe with the overrides is none.
    """
    known = [row.recipe for row in table.rows]
    for name in rows:
        if name not in known:
            raise UsageError(f"--rows {name}: {table.name} has {', '.join(known)}")
    split = "gold" if table.text == "gold" else "test"
    if split not in text.tests:
        raise UsageError(
            f"{table.name} wants gold-test.talp and its two texts beside the others of {text.name}"
        )
    wanted = [row for row in table.rows if not rows or row.recipe in rows]
    recipes = {row.recipe: _recipe(table, row.recipe, size, overrides) for row in table.rows}
    jobs = []
    for seed in seeds:
        for model in dict.fromkeys(row.trained for row in wanted):
            digest = _digest(_decisive(recipes[model]), text.digest)
            stem = f"{model}-{digest}-seed{seed}"
            origin = [digest, split, text.tests[split]]
            own = tuple(
                _row_job(row, recipes[row.recipe].get("search", {}), origin, seed, out)
                for row in wanted
                if row.trained == model
            )
            folder = str(out / "runs" / stem)
            places = {"seed": seed, "device": device, "threads": threads}
            config = _config(overlaid(recipes[model], places), f"{table.recipes}/{model}.toml", out, text)
            jobs.append(Job(model, seed, config, folder, str(text.folder), split, tuple(metrics), own))
    return jobs


def _row_job(row: Row, search: dict[str, Any], origin: Sequence[str], seed: int, out: Path) -> RowJob:
    tune = PENALTIES if row.tune else ()
    digest = _digest(origin, _without(search, "batch"), tune)
    return RowJob(row.recipe, str(out / "rows" / f"{row.recipe}-{digest}-seed{seed}"), digest, search, tune)


def _recipe(table: Table, name: str, size: str, overrides: Sequence[str]) -> dict[str, Any]:
    """What a recipe sets at a size, without what it leaves to defaults: a new option makes no other run."""
    folder = recipes_folder(table.recipes)
    data = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    if table.sized and size != "paper":
        data = overlaid(data, tomllib.loads((folder / f"{size}.toml").read_text(encoding="utf-8")))
    for override in overrides:
        set_option(data, override)
    return data


def _config(recipe: dict[str, Any], where: str, out: Path, text: ExperimentText) -> dict[str, Any]:
    """The config of a recipe on a text."""
    walks = recipe["data"].get("target_tokenizer", {}).get("kind") == "actions"
    train, valid = (text.actions(split) if walks else text.corpora[split] for split in ("train", "valid"))
    data = _without(recipe["data"], "test") | {"train": [train], "valid": valid}
    data["folder"] = str(out / ("prepared-actions" if walks else "prepared"))
    return to_dict(from_dict(RunConfig, {**recipe, "data": data}, where=where))


def overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in their places; a table that names a `kind` replaces the whole table."""
    made = dict(base)
    for key, value in changes.items():
        old = made.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "kind" not in value:
            made[key] = overlaid(old, value)
        else:
            made[key] = value
    return made


def _decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a recipe what matters to the weights, the seed apart."""
    kept = _without(config, "folder", "seed", "device", "threads", "search")
    kept["data"] = _without(kept["data"], "folder", "train", "valid", "test")
    kept["training"] = _without(kept.get("training", {}), "checkpoint", "record")
    return kept


def _without(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _digest(*what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:10]
