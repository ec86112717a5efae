"""Recipes, sizes, and the jobs of a table."""

import dataclasses
from pathlib import Path

import pytest

from regard.config import read_config, to_dict
from regard.errors import ConfigError, DataError, UsageError
from regard.extensions.reproduce.experiment_text import ExperimentText, write_text
from regard.extensions.reproduce.plan import PlanOptions, merge_options, plan
from regard.extensions.reproduce.tables import paper_tables
from regard.text.files import recipes_dir
from regard.training.run_config import RunConfig

ROWS = [(name, row) for name, table in paper_tables().items() for row in table.rows]


def _text(directory: Path) -> ExperimentText:
    pairs = {"train": 1, "valid": 1, "test": 1}
    corpora = {
        split: {side: f"{directory}/{split}.{side}" for side in ("source", "target")} for split in pairs
    }
    return ExperimentText(
        directory / "text", "toy", "de-en", "en", pairs, corpora, "words", "0" * 64, {"test": "1" * 64}
    )


def _plan(directory: Path, table: str = "malaviya2018-table1", size: str = "small", seeds=(1,), **more):
    options = PlanOptions(size, seeds, ["bleu"], **more)
    return plan(paper_tables()[table], directory, _text(directory), options)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda value: getattr(value, "recipe", value))
def test_recipe_of_a_row_trains_the_model_that_it_decodes_with(name, row) -> None:
    directory = recipes_dir(paper_tables()[name].recipes)
    files = (directory / f"{recipe}.toml" for recipe in (row.recipe, row.model_recipe))
    own, model = (to_dict(read_config(RunConfig, file)) for file in files)
    del own["generation"], model["generation"]
    assert own == model


@pytest.mark.parametrize(("table", "models"), [("malaviya2018-table1", 6), ("malaviya2018-table2", 5)])
def test_model_shared_by_several_rows_is_trained_once(tmp_path: Path, table, models) -> None:
    jobs = _plan(tmp_path, table, seeds=(1, 2))
    assert len(jobs) == 2 * models
    assert len({job.output_dir for job in jobs}) == 2 * models
    assert sum(len(job.rows) for job in jobs) == 2 * len(paper_tables()[table].rows)


def test_paper_size_is_the_recipe_on_the_given_text(tmp_path: Path) -> None:
    job = next(job for job in _plan(tmp_path, size="paper") if job.model == "csparsemax")
    recipe = to_dict(read_config(RunConfig, recipes_dir("malaviya2018") / "csparsemax.toml"))
    config = to_dict(job.config)
    assert config["model"] == recipe["model"] and config["training"] == recipe["training"]
    assert config["data"]["fertility"] == recipe["data"]["fertility"]
    assert config["data"]["train"][0]["source"] == f"{tmp_path}/train.source"


def test_only_settings_that_affect_the_weights_change_the_directory(tmp_path: Path) -> None:
    def directories(*overrides: str, **more):
        return [job.output_dir for job in _plan(tmp_path, overrides=overrides, **more)]

    plain = directories()
    assert directories("num_threads=1", device="cpu") == plain
    assert directories("training.logging.every_steps=7") == plain
    assert not set(directories("model.dropout=0.1")) & set(plain)
    assert not set(directories(size="paper")) & set(plain)


def test_setting_can_be_limited_to_some_rows(tmp_path: Path) -> None:
    def directories(*overrides: str) -> dict[str, str]:
        jobs = _plan(tmp_path, "shankar2019-table1", overrides=overrides)
        return {job.model: job.output_dir for job in jobs}

    plain, own = directories(), directories("prior,posterior:model.attention.tail=renormalize")
    assert {model for model in plain if own[model] != plain[model]} == {"prior", "posterior"}
    all_rows = directories("data.max_length=40")
    assert not set(all_rows.values()) & set(plain.values())
    with pytest.raises(UsageError, match="unknown row missing; the rows are soft, "):
        directories("soft,missing:model.dropout=0.1")


def test_search_settings_change_the_rows_but_not_the_model(tmp_path: Path) -> None:
    plain, other = (_plan(tmp_path, overrides=more) for more in ([], ["generation.beam_size=3"]))
    for first, second in zip(plain, other, strict=True):
        assert first.output_dir == second.output_dir
        assert {row.stem for row in first.rows}.isdisjoint(row.stem for row in second.rows)
    batched = _plan(tmp_path, overrides=["generation.batch_size=3"])
    stems = [[row.stem for job in jobs for row in job.rows] for jobs in (plain, batched)]
    assert stems[0] == stems[1]


def test_members_of_ensembles_are_trained_once(tmp_path: Path) -> None:
    jobs = _plan(tmp_path, "sutskever2014")
    trained = [job for job in jobs if not job.required_dirs]
    members = [("reversed", n) for n in range(1, 6)]
    assert [(job.model, job.seed) for job in trained] == [("forward", 1), *members]
    five, two = (job for job in jobs if job.required_dirs)
    assert list(two.member_dirs) == [job.output_dir for job in trained[1:3]]
    assert list(five.member_dirs) == [job.output_dir for job in trained[1:]]
    assert [row.recipe for row in two.rows] == ["ensemble2-beam12"]
    assert [row.search["beam_size"] for row in five.rows] == [1, 2, 12]
    assert [job.name for job in trained if not job.rows] == [f"reversed seed {n}" for n in range(2, 6)]


def test_seeds_share_members_of_ensembles(tmp_path: Path) -> None:
    jobs = _plan(tmp_path, "sutskever2014", seeds=(1, 2), rows=["reversed", "ensemble2-beam12"])
    trained = [(job.model, job.seed, len(job.rows)) for job in jobs if not job.required_dirs]
    assert trained == [("reversed", 1, 1), ("reversed", 2, 1), ("reversed", 3, 0)]
    assert [job.seed for job in jobs if job.required_dirs] == [1, 2]


def test_initial_model_is_trained_even_if_its_row_is_not_selected(tmp_path: Path) -> None:
    soft, sequence = _plan(tmp_path, "indurthi2019-table1", rows=["sequence"])
    assert sequence.config.training.init_from == soft.output_dir
    assert sequence.required_dirs == {soft.output_dir} and not soft.rows
    assert sequence.config.training.optimizer.learning_rate == 1e-4


def test_row_is_open_until_every_metric_is_computed(tmp_path: Path) -> None:
    job = next(job for job in _plan(tmp_path) if job.model == "sparsemax-covvector")
    (row,) = job.rows
    assert job.unfinished_rows() == [row]
    row.path("json").parent.mkdir()
    row.path("json").write_text(f'{{"digest": "{row.checksum}", "scores": {{"bleu": 1.0}}}}')
    assert job.unfinished_rows() == []
    assert dataclasses.replace(job, metrics=("bleu", "rep")).unfinished_rows() == [row]
    row.path("json").write_text('{"digest": "another", "scores": {"bleu": 1.0}}')
    assert job.unfinished_rows() == [row]


def test_rows_can_be_selected_and_unknown_rows_and_invalid_settings_are_rejected(tmp_path: Path) -> None:
    (job,) = _plan(tmp_path, rows=["softmax-covpenalty"])
    assert [row.recipe for row in job.rows] == ["softmax-covpenalty"]
    message = "--rows hard: unknown row; the rows of malaviya2018-table1 are softmax, softmax-covpenalty"
    with pytest.raises(UsageError, match=message):
        _plan(tmp_path, rows=["hard"])
    with pytest.raises(ConfigError, match=r"model\.dropout"):
        _plan(tmp_path, overrides=["model.dropout=2"])


def test_missing_gold_links_and_those_of_wrong_direction_are_rejected_before_training(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"shankar2019-table3 needs gold links: add gold-test\.talp"):
        _plan(tmp_path, "shankar2019-table3")
    data = tmp_path / "raw"
    data.mkdir()
    for split in ("train", "val", "test", "gold-test"):
        (data / f"{split}.de").write_text("ein Haus steht da\n" * 2)
        (data / f"{split}.en").write_text("a house\n" * 2)
    (data / "gold-test.talp").write_text("0-0 1-1\n0-0 3p1\n")
    text = write_text(data, tmp_path / "en", "en")
    assert plan(paper_tables()["shankar2019-table3"], tmp_path, text, PlanOptions(metrics=["aer"]))
    reversed_text = write_text(data, tmp_path / "de", "de")
    with pytest.raises(DataError, match=r"gold-test\.talp:2: link 3-1 .* source sentence.* --target"):
        plan(paper_tables()["shankar2019-table3"], tmp_path, reversed_text, PlanOptions(metrics=["aer"]))


def test_tables_share_models_tested_on_different_text(tmp_path: Path) -> None:
    text = dataclasses.replace(_text(tmp_path), test_checksums={"test": "1" * 64, "gold": "2" * 64})
    tables = [paper_tables()[name] for name in ("shankar2019-table1", "shankar2019-table3")]
    plans = [plan(table, tmp_path, text, PlanOptions(metrics=["aer"])) for table in tables]
    first, third = ({job.output_dir: job for job in jobs} for jobs in plans)
    assert third.keys() <= first.keys()
    for directory, job in third.items():
        assert (job.split, first[directory].split) == ("gold", "test")
        assert job.rows[0].stem != first[directory].rows[0].stem


def test_overlay_replaces_tables_with_a_kind_and_merges_others() -> None:
    base = {"a": {"kind": "x", "ffn_size": 1}, "b": {"c": 1, "d": 2}}
    merged = merge_options(base, {"a": {"kind": "y"}, "b": {"c": 3}})
    assert merged == {"a": {"kind": "y"}, "b": {"c": 3, "d": 2}}
