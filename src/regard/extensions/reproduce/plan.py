"""The plan of a table: jobs that train a model and compute the rows that use it.

A job may need other models to be trained first: an ensemble needs its members, and a model that starts from
trained weights needs the model with these weights.

OUT/text/                       see `regard.extensions.reproduce.experiment_text`
OUT/prepared/                   the prepared text
OUT/runs/MODEL-DIGEST-seedN/    model directories; DIGEST is the checksum of all inputs of training
OUT/rows/ROW-DIGEST-seedN.*     translations (txt), scores (json), sentence statistics (safetensors)
"""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import apply_overrides, from_dict
from regard.errors import DataError, UsageError
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.tables import Row, Table
from regard.generation.config import GenerationBatchConfig
from regard.text.files import recipes_dir
from regard.text.links import GoldLinks, check_links, read_gold_links
from regard.text.reading import InvalidJsonError, read_json
from regard.text.words import split_whitespace
from regard.training.run_config import RunConfig

MODEL_SIZES = ("small", "paper")
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
GOLD_LINKS_HINT = ". A link is SOURCE-TARGET; check --target-language."


@dataclass(frozen=True)
class RowJob:
    """One row of a table for one seed.

    Attributes:
        recipe: The name of the recipe.
        stem: The path of the row's files without the suffix.
        checksum: The checksum of all inputs that the scores depend on.
        search: The search options.
        penalties: The penalties to choose from on the validation text; empty: the penalties are not tuned.
    """

    recipe: str
    stem: str
    checksum: str
    search: dict[str, Any]
    penalties: tuple[float, ...]

    def path(self, suffix: str) -> Path:
        """Return the path of one of the row's files."""
        return Path(f"{self.stem}.{suffix}")

    def read_scores(self) -> dict[str, Any] | None:
        """Return the scores and statistics of the row, or None if it is not finished."""
        try:
            scores = read_json(self.path("json"), dict[str, Any])
        except InvalidJsonError as error:
            raise DataError(
                f"{self.path('json')}: not the scores of a run: {error}; remove the file"
            ) from None
        except DataError:
            return None  # there is no file yet
        known = scores.get("digest") == self.checksum and isinstance(scores.get("scores"), dict)
        return scores if known else None


@dataclass(frozen=True)
class TableJob:
    """A model for one seed, or an ensemble, and the rows that use it.

    Attributes:
        model: The recipe of the model.
        seed: The seed of the run. The members of an ensemble have consecutive seeds that start here.
        config: The config of the run.
        output_dir: The model directory; for an ensemble only a name that differs from theirs.
        member_dirs: The directories of the ensemble's members; for one model its own directory.
        split: The split that is used as the test set.
        metrics: The metrics to compute.
        rows: The rows.
    """

    model: str
    seed: int
    config: RunConfig
    output_dir: str
    member_dirs: tuple[str, ...]
    split: str
    metrics: tuple[str, ...]
    rows: tuple[RowJob, ...]

    @property
    def name(self) -> str:
        """The name of the job in messages."""
        num_members = len(self.member_dirs)
        return f"{self.model} seed {self.seed}" + (f", ensemble of {num_members}" if num_members > 1 else "")

    @property
    def required_dirs(self) -> set[str]:
        """The directories of the models that must be trained before this job."""
        start = self.config.training.init_from
        return {*self.member_dirs, *([start] if start else [])} - {self.output_dir}

    def unfinished_rows(self) -> list[RowJob]:
        """Return the rows with missing scores."""
        pairs = ((row, row.read_scores()) for row in self.rows)
        return [
            row for row, scores in pairs if scores is None or not set(self.metrics) <= set(scores["scores"])
        ]


@dataclass(frozen=True)
class PlanOptions:
    """The options of a reproduction that apply to all rows of its table.

    Attributes:
        size: The size of the models, one of `MODEL_SIZES`.
        seeds: The seeds.
        metrics: The metrics to compute.
        rows: The recipes of the rows to run. Default: all rows.
        overrides: Options for all runs as `key=value`, or for some rows only as `row,row:key=value`.
        device: The device, as in a config.
    """

    size: str = "small"
    seeds: Sequence[int] = (1,)
    metrics: Sequence[str] = ()
    rows: Sequence[str] = ()
    overrides: Sequence[str] = ()
    device: str = "auto"


def plan(table: Table, output_dir: Path, text: ExperimentText, options: PlanOptions) -> list[TableJob]:
    """Return the jobs of a table, in an order in which they can be run.

    Raises:
        UsageError: if the table has no such row, or the text has no test set for the table.
        ConfigError: if a recipe with the overrides is invalid.
        DataError: if gold links do not fit their text.
    """
    known = [row.recipe for row in table.rows]
    for name in options.rows:
        if name not in known:
            raise UsageError(f"--rows {name}: unknown row; the rows of {table.name} are {', '.join(known)}")
    split = _test_split(table, text)
    overrides = _overrides_by_row(known, options.overrides)
    recipes = {name: _recipe(table, name, options.size, overrides[name]) for name in known}
    rows = [row for row in table.rows if not options.rows or row.recipe in options.rows]
    starts = {row.model_recipe: row.init_from for row in table.rows if row.init_from}
    planner = _Planner(table, output_dir, text, options, split, recipes, rows, starts)
    jobs: dict[str, TableJob] = {}
    for seed in options.seeds:
        for row in rows:
            # Several rows can need the same model, which is trained once.
            for job in planner.jobs(row, seed):
                jobs.setdefault(job.output_dir, job)
    return list(jobs.values())


@dataclass(frozen=True)
class _Planner:
    """The jobs of one table on one text.

    Attributes:
        recipes: The options that the recipe of each row sets.
        starts: The recipe whose weights initialize a model, by the recipe of the model.
    """

    table: Table
    output_dir: Path
    text: ExperimentText
    options: PlanOptions
    split: str
    recipes: Mapping[str, dict[str, Any]]
    rows: Sequence[Row]
    starts: Mapping[str, str]

    def jobs(self, row: Row, seed: int) -> Iterator[TableJob]:
        """Yield the jobs of a row: a model follows the model that it starts from, an ensemble its members."""
        models = [row.model_recipe]
        while models[0] in self.starts:
            models.insert(0, self.starts[models[0]])
        for number in range(row.ensemble_size):
            for model in models:
                yield self._job(model, seed + number)
        if row.ensemble_size > 1:
            yield self._job(row.model_recipe, seed, row.ensemble_size)

    def _job(self, model: str, seed: int, size: int = 1) -> TableJob:
        """Return the job of one model, or of an ensemble of `size` models."""
        settings: dict[str, Any] = {"seed": seed, "device": self.options.device}
        if model in self.starts:
            settings["training"] = {"init_from": self._run_dir(self.starts[model], seed)}
        members = tuple(self._run_dir(model, seed + number) for number in range(size))
        rows = [row for row in self.rows if (row.model_recipe, row.ensemble_size) == (model, size)]
        return TableJob(
            model=model,
            seed=seed,
            config=self._config(model, settings),
            output_dir=members[0] + (f"-ensemble{size}" if size > 1 else ""),
            member_dirs=members,
            split=self.split,
            metrics=tuple(self.options.metrics),
            # A member of an ensemble can have a seed that the user did not choose. It is trained, not scored.
            rows=tuple(self._row_job(row, seed) for row in rows) if seed in self.options.seeds else (),
        )

    def _row_job(self, row: Row, seed: int) -> RowJob:
        search = self.recipes[row.recipe].get("generation", {})
        penalties = PENALTIES if row.tune_penalties else ()
        origin = [self._model_checksum(row.model_recipe), self.split, self.text.test_checksums[self.split]]
        origin += [str(row.ensemble_size)] if row.ensemble_size > 1 else []
        # The batch size affects the speed of the search, but not its result.
        limits = (field.name for field in dataclasses.fields(GenerationBatchConfig))
        checksum = _checksum(origin, _drop_keys(search, *limits), penalties)
        stem = self.output_dir / "rows" / f"{row.recipe}-{checksum}-seed{seed}"
        return RowJob(row.recipe, str(stem), checksum, search, penalties)

    def _model_checksum(self, model: str) -> str:
        """Return the checksum of all inputs that the weights of a model depend on, except for the seed."""
        start = [self._model_checksum(self.starts[model])] if model in self.starts else []
        return _checksum(_options_of_weights(self.recipes[model]), self.text.checksum, *start)

    def _run_dir(self, model: str, seed: int) -> str:
        return str(self.output_dir / "runs" / f"{model}-{self._model_checksum(model)}-seed{seed}")

    def _config(self, model: str, settings: Mapping[str, Any]) -> RunConfig:
        recipe, text = merge_options(self.recipes[model], settings), self.text
        predicts_actions = recipe["data"].get("target_tokenizer", {}).get("kind") == "actions"
        train, valid = (
            text.actions(split) if predicts_actions else text.corpora[split] for split in ("train", "valid")
        )
        cache_dir = self.output_dir / ("prepared-actions" if predicts_actions else "prepared")
        data = _drop_keys(recipe["data"], "test")
        data |= {"train": [train], "valid": valid, "cache_dir": str(cache_dir)}
        where = f"{self.table.recipes}/{model}.toml"
        return from_dict(RunConfig, {**recipe, "data": data}, origin=where)


def _test_split(table: Table, text: ExperimentText) -> str:
    """Return the split that is used as the test set, after a check of its gold links."""
    split = "gold" if table.text_kind == "gold" else "test"
    if split not in text.test_checksums:
        raise UsageError(
            f"{table.name} needs gold links: add gold-test.talp and its two texts to the data in {text.name}"
        )
    if split == "gold" and text.gold_path is not None:
        _check_gold(text, read_gold_links(text.gold_path))
    return split


def _check_gold(text: ExperimentText, links: Iterable[GoldLinks]) -> None:
    """Check that the gold links fit their text, before any model is trained."""
    gold = list(links)
    sides = [
        [len(split_whitespace(line)) for line in text.lines("gold", side)] for side in ("source", "target")
    ]
    if len(gold) != len(sides[0]):
        raise DataError(
            f"{text.gold_path} has {len(gold)} lines but its texts have {len(sides[0])}: the file must have "
            "one line per sentence pair"
        )
    for number, (truth, source, target) in enumerate(zip(gold, *sides, strict=True), 1):
        words = {"source": source, "target": target}
        check_links(truth.possible, words, f"{text.gold_path}:{number}", GOLD_LINKS_HINT)


def _overrides_by_row(known: Sequence[str], overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the overrides of each row."""
    row_overrides: dict[str, list[str]] = {name: [] for name in known}
    for override in overrides:
        key, equals, value = override.partition("=")
        names, _, option = key.rpartition(":")
        for name in names.split(",") if names else known:
            if name not in row_overrides:
                raise UsageError(f"--set {override}: unknown row {name}; the rows are {', '.join(known)}")
            row_overrides[name].append(option + equals + value)
    return row_overrides


def _recipe(table: Table, name: str, size: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the options that a recipe sets at a size.

    Defaults are omitted, so that a new option with a default does not change the checksum of a run.
    """
    directory = recipes_dir(table.recipes)
    # Read as plain TOML, not as a config, because a config would add the defaults.
    data = tomllib.loads((directory / f"{name}.toml").read_text(encoding="utf-8"))
    if table.has_sizes and size != "paper":
        # SIZE.toml changes all recipes of the table; NAME.SIZE.toml changes this one.
        for changes in (directory / f"{size}.toml", directory / f"{name}.{size}.toml"):
            if changes.name == f"{size}.toml" or changes.exists():
                data = merge_options(data, tomllib.loads(changes.read_text(encoding="utf-8")))
    return apply_overrides(data, overrides)


def merge_options(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with changes merged into them; a table with a `kind` replaces the whole table."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "kind" not in value:
            merged[key] = merge_options(old, value)
        else:
            merged[key] = value
    return merged


def _options_of_weights(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recipe that the weights depend on, except for the seed."""
    # Paths and the device are not part of the checksum, so that results can be moved to another machine.
    options = _drop_keys(config, "output_dir", "seed", "device", "num_threads", "generation")
    options["data"] = _drop_keys(options["data"], "cache_dir", "train", "valid", "test")
    # These tables change the files that a run writes, but not its weights.
    options["training"] = _drop_keys(options.get("training", {}), "checkpoint", "logging")
    return options


def _drop_keys(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _checksum(*what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:10]
