"""The plan of a table: jobs that train a model and compute the rows that use it, as plain data.

A job may need other models to be trained first: an ensemble needs its members, and a model that starts from
trained weights needs the model with these weights.

OUT/text/                       see `regard.reproduce.texts`
OUT/prepared/                   the prepared text
OUT/runs/MODEL-DIGEST-seedN/    model directories; DIGEST is the checksum of all inputs of training
OUT/runs/MODEL-DIGEST-seedN.log the log of the run; with -ensembleM: the log of an ensemble of M models
OUT/rows/ROW-DIGEST-seedN.*     translations (txt), scores (json), sentence statistics (safetensors)
"""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import from_dict, set_option, to_dict
from regard.data.files import write_atomic
from regard.data.folders import recipes_folder
from regard.data.links import GoldLinks, check_links, read_gold
from regard.data.reading import NotJson, read_json
from regard.data.spacing import split_at_spaces
from regard.decoding.config import SearchBatchConfig
from regard.errors import DataError, UsageError
from regard.experiment import RunConfig
from regard.reproduce.tables import Row, Table
from regard.reproduce.texts import ExperimentText

__all__ = ["SIZES", "Job", "RowJob", "overlaid", "plan"]

SIZES = ("small", "paper")
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class RowJob:
    """One row of a table for one seed.

    Attributes:
        recipe: The name of the recipe.
        stem: The path of the row's files without the suffix.
        digest: The checksum of all inputs that the scores depend on.
        search: The search options.
        tune: The penalties to choose from on the validation text; empty: the penalties are not tuned.
    """

    recipe: str
    stem: str
    digest: str
    search: dict[str, Any]
    tune: tuple[float, ...]

    def path(self, ending: str) -> Path:
        """Return the path of one of the row's files."""
        return Path(f"{self.stem}.{ending}")

    def figures(self) -> dict[str, Any] | None:
        """Return the scores and statistics of the row, or None if it is not finished."""
        try:
            found = read_json(self.path("json"), dict[str, Any])
        except NotJson as error:
            raise DataError(
                f"{self.path('json')}: not the scores of a run: {error}; remove the file"
            ) from None
        except DataError:
            return None
        known = found.get("digest") == self.digest and isinstance(found.get("scores"), dict)
        return found if known else None


@dataclass(frozen=True)
class Job:
    """A model for one seed, or an ensemble, and the rows that use it.

    Attributes:
        model: The recipe of the model.
        seed: The seed of the run. The members of an ensemble have consecutive seeds that start here.
        config: The config of the run, as plain data.
        folder: The model directory; for an ensemble only the name of its log.
        members: The directories of the ensemble's members; for one model its own directory.
        text: The directory of the experiment's text.
        split: The split that is used as the test set.
        metrics: The metrics to compute.
        rows: The rows.
    """

    model: str
    seed: int
    config: dict[str, Any]
    folder: str
    members: tuple[str, ...]
    text: str
    split: str
    metrics: tuple[str, ...]
    rows: tuple[RowJob, ...]

    @property
    def name(self) -> str:
        """The name of the job in messages."""
        several = len(self.members)
        return f"{self.model} seed {self.seed}" + (f", ensemble of {several}" if several > 1 else "")

    @property
    def needs(self) -> set[str]:
        """The directories of the models that must be trained before this job."""
        start = self.config["training"].get("start")
        return {*self.members, *([start] if start else [])} - {self.folder}

    def open_rows(self) -> list[RowJob]:
        """Return the rows with missing scores."""
        found = ((row, row.figures()) for row in self.rows)
        return [row for row, own in found if own is None or not set(self.metrics) <= set(own["scores"])]

    def write(self, path: Path) -> None:
        """Write the job to a file for the process that runs it."""
        write_atomic(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> "Job":
        """Read a job that `write` wrote.

        Raises:
            DataError: if the file does not contain a job.
        """
        try:
            return read_json(path, cls)
        except NotJson as error:
            raise DataError(f"{path}: not a job that `regard reproduce` wrote: {error}") from None


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
    """Return the jobs of a table, in an order in which they can be run.

    Args:
        table: The table.
        out: The output directory.
        text: The text of the experiment.
        size: `small` or `paper`.
        seeds: The seeds.
        metrics: The metrics to compute.
        rows: The recipes of the rows to run. Default: all rows.
        overrides: Options for all runs as `key=value`, or for some rows only as `row,row:key=value`.
        device: The device, as in a config.
        threads: The number of threads per run. 0 leaves the choice to PyTorch.

    Raises:
        UsageError: if the table has no such row, or the text has no test set for the table.
        ConfigError: if a recipe with the overrides is invalid.
        DataError: if gold links do not fit their text.
    """
    known = [row.recipe for row in table.rows]
    for name in rows:
        if name not in known:
            raise UsageError(f"--rows {name}: unknown row; the rows of {table.name} are {', '.join(known)}")
    split = "gold" if table.text == "gold" else "test"
    if split not in text.tests:
        raise UsageError(
            f"{table.name} needs gold links: add gold-test.talp and its two texts to the data in {text.name}"
        )
    if split == "gold" and text.gold is not None:
        _check_gold(text, read_gold(text.gold))
    wanted = [row for row in table.rows if not rows or row.recipe in rows]
    starts = {row.trained: row.start for row in table.rows if row.start}
    by_row = _settings_by_row(known, overrides)
    recipes = {name: _recipe(table, name, size, by_row[name]) for name in known}

    def digest(model: str) -> str:
        start = [digest(starts[model])] if model in starts else []
        return _digest(_decisive(recipes[model]), text.digest, *start)

    def folder(model: str, seed: int) -> str:
        return str(out / "runs" / f"{model}-{digest(model)}-seed{seed}")

    def job(model: str, seed: int, models: int) -> Job:
        origin = [digest(model), split, text.tests[split]] + ([str(models)] if models > 1 else [])
        own = [row for row in wanted if (row.trained, row.ensemble) == (model, models)]
        row_jobs = (_row_job(row, recipes[row.recipe].get("search", {}), origin, seed, out) for row in own)
        places: dict[str, Any] = {"seed": seed, "device": device, "threads": threads}
        if model in starts:
            places["training"] = {"start": folder(starts[model], seed)}
        members = tuple(folder(model, seed + number) for number in range(models))
        return Job(
            model=model,
            seed=seed,
            config=_config(overlaid(recipes[model], places), f"{table.recipes}/{model}.toml", out, text),
            folder=members[0] + (f"-ensemble{models}" if models > 1 else ""),
            members=members,
            text=str(text.folder),
            split=split,
            metrics=tuple(metrics),
            rows=tuple(row_jobs) if seed in seeds else (),
        )

    # A model follows the model that it starts from, and an ensemble follows its members.
    jobs: dict[str, Job] = {}
    for seed in seeds:
        for row in wanted:
            for number in range(row.ensemble):
                models = [row.trained]
                while models[0] in starts:
                    models.insert(0, starts[models[0]])
                for model in models:
                    jobs.setdefault(folder(model, seed + number), job(model, seed + number, 1))
            if row.ensemble > 1:
                together = job(row.trained, seed, row.ensemble)
                jobs.setdefault(together.folder, together)
    return list(jobs.values())


def _row_job(row: Row, search: dict[str, Any], origin: Sequence[str], seed: int, out: Path) -> RowJob:
    tune = PENALTIES if row.tune else ()
    limits = (field.name for field in dataclasses.fields(SearchBatchConfig))
    digest = _digest(origin, _without(search, *limits), tune)
    return RowJob(row.recipe, str(out / "rows" / f"{row.recipe}-{digest}-seed{seed}"), digest, search, tune)


def _check_gold(text: ExperimentText, links: Iterable[GoldLinks]) -> None:
    """Check that the gold links fit their text, before any model is trained.

    Raises:
        DataError: if a link points beyond its sentence; the message gives the line.
    """
    gold = list(links)
    sides = [
        [len(split_at_spaces(line)) for line in text.lines("gold", side)] for side in ("source", "target")
    ]
    if len(gold) != len(sides[0]):
        raise DataError(
            f"{text.gold} has {len(gold)} lines but its texts have {len(sides[0])}: the file must have one "
            "line per sentence pair"
        )
    for number, (truth, source, target) in enumerate(zip(gold, *sides, strict=True), 1):
        words = {"source": source, "target": target}
        where = f"{text.gold}:{number}"
        check_links(truth.possible, words, where, ": is --target the language of the second?")


def _settings_by_row(known: Sequence[str], overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the overrides of each row.

    Raises:
        UsageError: if an override names an unknown row.
    """
    found: dict[str, list[str]] = {name: [] for name in known}
    for override in overrides:
        key, equals, value = override.partition("=")
        names, _, own = key.rpartition(":")
        for name in names.split(",") if names else known:
            if name not in found:
                raise UsageError(f"--set {override}: unknown row {name}; the rows are {', '.join(known)}")
            found[name].append(own + equals + value)
    return found


def _recipe(table: Table, name: str, size: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the options that a recipe sets at a size.

    Defaults are left out, so that a new option with a default does not change the checksum of a run.
    """
    folder = recipes_folder(table.recipes)
    data = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    if table.sized and size != "paper":
        # SIZE.toml changes all recipes of the table; NAME.SIZE.toml changes this one.
        for changes in (folder / f"{size}.toml", folder / f"{name}.{size}.toml"):
            if changes.name == f"{size}.toml" or changes.exists():
                data = overlaid(data, tomllib.loads(changes.read_text(encoding="utf-8")))
    for override in overrides:
        set_option(data, override)
    return data


def _config(recipe: dict[str, Any], where: str, out: Path, text: ExperimentText) -> dict[str, Any]:
    """Return the complete config of a recipe on a text, as plain data."""
    walks = recipe["data"].get("target_tokenizer", {}).get("kind") == "actions"
    train, valid = (text.actions(split) if walks else text.corpora[split] for split in ("train", "valid"))
    data = _without(recipe["data"], "test") | {"train": [train], "valid": valid}
    data["folder"] = str(out / ("prepared-actions" if walks else "prepared"))
    return to_dict(from_dict(RunConfig, {**recipe, "data": data}, where=where))


def overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with changes merged into them; a table with a `kind` replaces the whole table."""
    made = dict(base)
    for key, value in changes.items():
        old = made.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "kind" not in value:
            made[key] = overlaid(old, value)
        else:
            made[key] = value
    return made


def _decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recipe that the weights depend on, except for the seed."""
    kept = _without(config, "folder", "seed", "device", "threads", "search")
    kept["data"] = _without(kept["data"], "folder", "train", "valid", "test")
    kept["training"] = _without(kept.get("training", {}), "checkpoint", "record")
    return kept


def _without(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _digest(*what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:10]
