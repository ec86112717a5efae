"""The examples of docs/howto/large_text.md with two processes: results equal those of one process."""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import doc_blocks
import pytest

import regard
from quick_coverage import phrasebook_model
from regard.extensions.phrasebook.corpus import generate

pytestmark = pytest.mark.slow
COUNT = 20_000
BLOCKS = [block.code for block in doc_blocks.blocks(doc_blocks.ROOT / "docs/howto/large_text.md")]


@functools.cache
def make_pairs() -> list[dict[str, str]]:
    """Return good translations, with the translations of other sentences as references."""
    words = list(islice(generate(2), COUNT))
    return [
        {"source": " ".join(one.source), "target": " ".join(one.target), "reference": " ".join(other.target)}
        for one, other in zip(words, reversed(words), strict=True)
    ]


def code(*texts: str) -> str:
    """Return the blocks of the page that contain one of the texts."""
    return "\n".join(block for block in BLOCKS if any(text in block for text in texts))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large")
    shutil.copytree(phrasebook_model(tmp_path_factory), directory / "checker")
    lines = (f"{pair['source']}\t{pair['target']}\n" for pair in make_pairs())
    (directory / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    (directory / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in make_pairs()))
    program = directory / "bin" / "regard"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m regard "$@"\n')
    program.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def expected(directory: Path) -> list[Mapping[str, float]]:
    """Return the probabilities that one process gives."""
    checker = regard.CoverageModel.load(directory / "checker", num_threads=1)
    pairs = ((pair["source"], pair["target"]) for pair in make_pairs())
    return [sentence.probabilities for sentence in checker.check_pairs(pairs)]


def run_in(directory: Path, *command: str) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(directory / "hf"), "RAY_USAGE_STATS_ENABLED": "0"}
    path = os.pathsep.join([str(directory / "bin"), os.environ["PATH"]])
    environment = os.environ | offline | {"PATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def read_rows(path: Path) -> list[dict]:
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]


def check_rows(rows: list[dict], expected: list[Mapping[str, float]]) -> None:
    """Check the order, and that rounding alone differs."""
    assert [row["source"] for row in rows] == [pair["source"] for pair in make_pairs()]
    for row, probabilities in zip(rows, expected, strict=True):
        assert {error: row[error] for error in probabilities} == pytest.approx(probabilities, abs=1e-3)


def test_gnu_parallel_checks_two_halves_in_order(directory, expected) -> None:
    if shutil.which("parallel") is None:
        pytest.skip("needs GNU parallel: apt-get install parallel")
    run_in(directory, "bash", "-euo", "pipefail", "-c", code("parallel --pipe"))
    rows = read_rows(directory / "checked.jsonl")
    assert [row["line"] for row in rows].count(1) == 2
    check_rows([{"source": row["source"], **row["probabilities"]} for row in rows], expected)


def test_datasets_map_a_checker_in_two_processes(directory, expected) -> None:
    pytest.importorskip("datasets", reason="needs datasets: pip install 'regard[large]'")
    script = code("def check", "load_dataset") + "\nchecked.to_json('all.jsonl')"
    run_in(directory, sys.executable, "-c", script)
    rows = read_rows(directory / "all.jsonl")
    check_rows(rows, expected)
    assert read_rows(directory / "complete.jsonl") == [row for row in rows if row["omission"] < 0.5]


def test_ray_data_checks_in_two_processes(directory, expected) -> None:
    pytest.importorskip("ray", reason="needs Ray Data: pip install 'regard[large]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs Ray Data: pip install 'regard[large]'")
    run_in(directory, sys.executable, "-c", code("def check", "import ray"))
    check_rows(parquet.read_table(directory / "checked").to_pylist(), expected)


def test_alignments_and_scores_of_batches_are_those_of_the_text(directory) -> None:
    pytest.importorskip("datasets", reason="needs datasets: pip install 'regard[large]'")
    sides = ("source", "target", "reference")
    sources, targets, references = ([pair[side] for pair in make_pairs()] for side in sides)
    aligner = regard.Aligner.train(sources[:500], targets[:500], "ibm1", num_threads=1)
    aligner.save(directory / "aligner")
    opening, _, _ = code("load_dataset").partition("checked =")
    run_in(directory, sys.executable, "-c", f"import regard\n{opening}\n{code('def align')}")
    rows = read_rows(directory / "aligned.jsonl")
    assert [row["links"] for row in rows] == [links.tolist() for links in aligner.align(sources, targets)]
    chrf = regard.evaluate(targets, references, metrics=["chrf"])["chrf"].sentence_scores
    assert [row["chrf"] for row in rows] == pytest.approx(chrf.tolist())
