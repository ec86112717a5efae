"""Results of several seeds, combined into a table."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from regard.config import from_dict
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.plan import PlanOptions, RowJob, TableJob
from regard.extensions.reproduce.results import TableResults, collect_results
from regard.extensions.reproduce.tables import Row, Table, TableMetric
from regard.metrics.base import paired_bootstrap
from regard.metrics.coverage import count_repetitions
from regard.metrics.translation import count_statistics
from regard.training.run_config import RunConfig

TABLE = Table(
    "toy",
    "A toy",
    "malaviya2018",
    (TableMetric("rep", "REP", higher_is_better=False),),
    (Row("first", "softmax", published={"de-en": {"rep": 3.37}}), Row("second", "sparsemax")),
)
REFERENCES = [["a", "b"], ["a", "a", "b"], ["a", "b", "c", "d"]]
# The worked examples of the definition of REP: 2, 6 and 3, before normalization.
OUTPUTS = {
    ("softmax", 1): [["a", "a"], ["a", "a", "b"], ["a", "b"]],
    ("softmax", 2): [["a", "a", "a"], ["a", "a", "b"], ["a", "b"]],
    ("sparsemax", 1): [["a", "b"], ["a", "a", "a"], ["d"]],
    ("sparsemax", 2): [["a", "b"], ["a", "a", "b"], ["d"]],
}
TEXT = ExperimentText(
    Path("text"), "toy", "de-en", "en", {"train": 9, "valid": 3, "test": 3}, {}, "words", "0" * 64, {}
)
CONFIG = from_dict(
    RunConfig, {"data": {"train": [{"source": "s", "target": "t"}], "valid": {"source": "s", "target": "t"}}}
)

FIGURES = {
    "length_penalty": 0.0,
    "coverage_penalty": 0.0,
    "validation_perplexity": 2.5,
    "steps": 3000,
    "training_seconds": 60.0,
    "search_seconds": 1.0,
    "tuned": [],
}


def collect(jobs: list[TableJob], table: Table = TABLE, **options) -> TableResults:
    return collect_results(table, jobs, TEXT, PlanOptions(**options))


def finished_job(directory: Path, recipe: str, seed: int, counts: dict[str, np.ndarray], score: float):
    """Return a job of one row whose results are in files, with the same score of each metric."""
    row = RowJob(recipe, str(directory / f"{recipe}-{seed}"), "d", {}, ())
    row.path("safetensors").write_bytes(save(counts))
    figures = {"digest": "d", "seed": seed, "scores": dict.fromkeys(counts, score), **FIGURES}
    row.path("json").write_text(json.dumps(figures))
    return TableJob(recipe, seed, CONFIG, "", (), "test", tuple(counts), (row,))


@pytest.fixture
def jobs(tmp_path: Path) -> list[TableJob]:
    counted = {key: count_repetitions(outputs, REFERENCES) for key, outputs in OUTPUTS.items()}
    return [
        finished_job(tmp_path, *key, {"rep": counts.rows}, counts.corpus_score())
        for key, counts in counted.items()
    ]


def test_score_is_the_mean_over_seeds(jobs: list[TableJob]) -> None:
    first, second = collect(jobs).results
    words = sum(map(len, REFERENCES))
    assert first.cells["rep"].seeds == pytest.approx({1: 100 * 2 / words, 2: 100 * 6 / words})
    assert first.cells["rep"].estimate.value == pytest.approx(100 * 4 / words)
    assert second.cells["rep"].estimate.value == pytest.approx(100 * 1.5 / words)
    assert first.cells["rep"].published == 3.37 and second.cells["rep"].published is None


def test_rows_are_compared_with_the_first_by_paired_bootstrap(jobs: list[TableJob]) -> None:
    first, second = collect(jobs).results
    assert first.cells["rep"].difference is None
    against = second.cells["rep"].difference
    assert against is not None
    rows = [
        np.stack([count_repetitions(OUTPUTS[recipe, seed], REFERENCES).rows for seed in (1, 2)])
        for recipe in ("softmax", "sparsemax")
    ]
    expected = paired_bootstrap(*rows, lambda r: 100 * r[:, 0] / r[:, 1])
    assert against.p_value == expected.p_value
    assert against.difference.low == pytest.approx(expected.difference.low)


def test_missing_seed_prevents_the_comparison(jobs: list[TableJob]) -> None:
    first, second = collect([jobs[0], jobs[2], jobs[3]]).results
    assert set(first.cells["rep"].seeds) == {1}
    assert second.cells["rep"].difference is None


def test_unfinished_rows_are_empty(jobs: list[TableJob]) -> None:
    for job in jobs[2:]:
        job.rows[0].path("json").unlink()
    found = collect(jobs)
    assert found.results[1].cells == {}
    assert "| second |  |  |  |" in found.to_markdown().splitlines()


def test_markdown_and_data_contain_our_numbers_and_those_of_the_paper(jobs: list[TableJob]) -> None:
    assert "Options changed" not in collect(jobs).to_markdown()
    results = collect(jobs, overrides=["soft:model.dropout=0.1", "seed=3"])
    text = results.to_markdown()
    assert "\nOptions changed from the recipes: `soft:model.dropout=0.1`, `seed=3`.\n" in text
    assert "| first | 44.44 |" in text and "| 3.37 |" in text
    assert "22.22 / 66.67" in text and "| 3,000 |" in text
    against = results.results[1].cells["rep"].difference
    assert against is not None
    found = against.difference
    interval = f"{found.low:+.2f} to {found.high:+.2f}"
    assert f"| second | {found.value:+.2f} | {interval} | {against.p_value:.3f} |" in text
    data = json.loads(results.to_json())
    assert data["schema"] == "reproduction"
    assert data["settings"] == ["soft:model.dropout=0.1", "seed=3"]
    assert results.to_pandas()["rep"].tolist() == [row["metrics"]["rep"]["score"] for row in data["rows"]]
    assert data["rows"][0]["metrics"]["rep"]["paper"] == 3.37
    assert data["rows"][1]["metrics"]["rep"]["p_value"] > 0
    assert data["data"]["num_pairs"]["test"] == 3


def test_scores_by_length_include_the_number_of_sentences(tmp_path: Path) -> None:
    """As in `regard analyze length`, empty buckets are blank, and single sentences have no interval."""
    metrics = tuple(TableMetric(f"sacrebleu:{label}", label) for label in ("1-10", "11-20", "61+"))
    rows = (Row("first", "softmax"), Row("second", "sparsemax"))
    table = Table("toy", "A toy", "malaviya2018", metrics, rows)
    lines_of_text = ["the cat sat on the mat .", "a dog ran over the hill .", "a house by the sea ."]
    whole = count_statistics("bleu", lines_of_text, [lines_of_text])
    kept = {"sacrebleu:1-10": [0, 1], "sacrebleu:11-20": [2], "sacrebleu:61+": []}
    counts = {name: whole.rows[np.array(rows, dtype=np.int64)] for name, rows in kept.items()}
    jobs = [finished_job(tmp_path, recipe, 1, counts, 100.0) for recipe in ("softmax", "sparsemax")]
    collected = collect(jobs, table)
    results = collected.results
    found = collected.to_dict()["rows"][0]["metrics"]
    sizes = {name: cell["sentences"] for name, cell in found.items()}
    assert sizes == {"sacrebleu:1-10": 2, "sacrebleu:11-20": 1}
    assert found["sacrebleu:11-20"]["interval"] is None
    assert results[1].cells["sacrebleu:1-10"].difference is not None
    assert results[1].cells["sacrebleu:11-20"].difference is None
    lines = collected.to_markdown().splitlines()
    assert "| first | 100.00 | 100.00 to 100.00 | 100.00 |  |  |  |" in lines
    assert "| sentences | 2 |  | 1 |  | 0 |  |" in lines
    assert not any("paper" in line for line in lines)


def test_penalties_are_shown_if_a_row_tunes_them(jobs: list[TableJob]) -> None:
    assert "alpha, beta" not in collect(jobs).to_markdown()
    tuned = dataclasses.replace(
        TABLE, rows=(TABLE.rows[0], dataclasses.replace(TABLE.rows[1], tune_penalties=True))
    )
    lines = collect(jobs, tuned).to_markdown().splitlines()
    assert next(line for line in lines if "alpha, beta" in line).count("|") == lines[-1].count("|")
    assert "| 0, 0 / 0, 0 |" in lines[-1]
