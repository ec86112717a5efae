"""Tests of distributed training: two processes under torchrun equal one process on the same batches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import to_dict
from regard.training.metrics_logger import read_metrics
from regard.training.run_context import RunContext
from regard.training.trainer import Trainer
from saved_models import small_rnn

CHILD = Path(__file__).with_name("two_processes.py")
ROOT = Path(__file__).parents[2]


def _run_two(task: dict, at: Path) -> None:
    at.write_text(json.dumps(task))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launcher, CHILD, at],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_and_resume(pairs, settings, tiny_model, tmp_path: Path) -> None:
    def config(steps: int):
        # 19 sentences in batches of 3: the last batch of an epoch has one, so the second process gets none.
        return settings(
            batch_size=3,
            gradient_accumulation=2,
            optimizer={"kind": "sgd", "learning_rate": 0.5},
            validation={"every_steps": 8},
            max_steps=steps,
        )

    train, valid = pairs(19), pairs(7, seed=9)
    one, two = tmp_path / "one", tmp_path / "two"
    for run_dir in (one, two):
        run_dir.mkdir()
    Trainer(tiny_model(), train, valid, config(20), RunContext(one, 1)).run()
    runs = [to_dict(config(steps)) for steps in (8, 20)]
    task = {"train": train.sources, "valid": valid.sources, "output_dir": str(two), "runs": runs}
    _run_two(task, tmp_path / "task.json")
    records = read_metrics(one), read_metrics(two)
    assert len(records[0]) == len(records[1]) == 20 + 3
    for first, second in zip(*records, strict=True):
        for name in ("kind", "step", "epoch", "tokens"):
            assert first.get(name) == second.get(name)
        assert second["loss"] == pytest.approx(first["loss"], rel=1e-5)
        assert second.get("grad_norm", 1.0) == pytest.approx(first.get("grad_norm", 1.0), rel=1e-4)


@pytest.mark.slow
def test_parameters_without_gradients_do_not_block_processes(pairs, settings, tmp_path: Path) -> None:
    config = settings(batch_size=8, validation={"every_steps": 4}, max_steps=4)
    task = {
        "train": pairs(32).sources,
        "valid": pairs(7, seed=9).sources,
        "output_dir": str(tmp_path),
        "runs": [to_dict(config)],
        "conv": small_rnn(8) | {"attention": {"kind": "hard"}},
    }
    _run_two(task, tmp_path / "task.json")
    assert [line["kind"] for line in read_metrics(tmp_path)] == ["train"] * 4 + ["validation"]
