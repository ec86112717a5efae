"""Tests of the trainer: exact resumption, accumulation, validation, divergence, and checkpoints."""

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.data.batch import BatchConfig
from regard.errors import CheckpointError, ConfigError, DataError, TrainingDivergedError
from regard.runs.serialization import read_metadata, write_tensors
from regard.runs.weights import load_weights, named_weights, state_file
from regard.training.evaluate import validate
from regard.training.metrics_logger import read_metrics
from regard.training.run_context import Callback, RunContext
from regard.training.trainer import Trainer


@pytest.fixture
def trainer(pairs, tiny_model, run_dir: Path):
    def make(
        config, *, count: int = 40, seed: int = 1, dropout: float = 0.3, at: Path = run_dir, **more
    ) -> Trainer:
        at.mkdir(exist_ok=True)
        model, callbacks = more.pop("model", None) or tiny_model(dropout), more.pop("callbacks", ())
        run = RunContext(at, seed, **more)
        return Trainer(model, pairs(count), pairs(8, seed=9), config, run, callbacks=callbacks)

    return make


def _weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in named_weights(trainer.state.model).items()}


def _figures(run_dir: Path) -> list[dict]:
    """Return the record without durations and speeds."""
    clock = ("seconds", "tokens_per_second")
    return [{k: v for k, v in entry.items() if k not in clock} for entry in read_metrics(run_dir)]


def _equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


SCHEDULES = [
    {"kind": "plateau", "patience": 1},
    {"kind": "inverse_sqrt", "warmup_steps": 5},
    {"kind": "exponential", "start_epoch": 1},
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule["kind"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_interrupted_and_resumed_run_is_bitwise_equal(
    trainer, settings, tmp_path: Path, schedule, optimizer
) -> None:
    # 5 batches per epoch, the last one smaller; step 11 is in the middle of an epoch.
    shared = {
        "optimizer": {"kind": optimizer, "learning_rate": 0.05},
        "lr_scheduler": schedule,
        "logging": {"every_steps": 3},
    }
    validation = {} if schedule["kind"] == "exponential" else {"validation": {"every_steps": 4}}
    config = settings(**shared, **validation, max_steps=11, checkpoint={"every_steps": 4})
    uninterrupted = trainer(config, count=36, at=tmp_path / "whole")
    uninterrupted.run()
    resumed_dir = tmp_path / "cut"
    for stop_at in (2, 5, 8):
        part = trainer(config, count=36, at=resumed_dir)
        _interrupt(part, stop_at, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert part.run().signal == signal.SIGTERM
    killed = trainer(config, count=36, at=resumed_dir)
    _interrupt(killed, 10, _die)
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    # The record has entries after the last checkpoint.
    assert read_metrics(resumed_dir)[-1]["step"] > read_metadata(state_file(resumed_dir))["progress"]["step"]
    last = trainer(config, count=36, at=resumed_dir)
    assert last.run().signal is None
    assert _equal(_weights(uninterrupted), _weights(last))
    assert _figures(tmp_path / "whole") == _figures(resumed_dir)
    files = [(at / "model.safetensors").read_bytes() for at in (tmp_path / "whole", resumed_dir)]
    assert files[0] == files[1]


def _die() -> None:
    raise KeyboardInterrupt


def _interrupt(trainer: Trainer, step: int, act: Callable[[], None]) -> None:
    """Act in the middle of a training step."""
    backward = trainer.train_step._backward

    def interrupted(*args, **kwargs):
        if trainer.state.progress.step + 1 == step:
            act()
        return backward(*args, **kwargs)

    trainer.train_step._backward = interrupted  # type: ignore[method-assign]


@pytest.fixture
def step_weights(trainer, settings, tmp_path: Path):
    """Return a function that trains one step on 8 sentences, and returns the weights."""

    def make(name: str, **changes: object) -> dict[str, torch.Tensor]:
        config = settings(bucket_batches=1, max_steps=1, **changes)
        run = trainer(config, count=8, dropout=0.0, at=tmp_path / name)
        run.run()
        return _weights(run)

    return make


def test_gradient_accumulation_equals_one_large_batch(step_weights) -> None:
    sgd = {"kind": "sgd", "learning_rate": 0.5, "max_grad_norm": 0}
    whole = step_weights("whole", batch_size=8, optimizer=sgd)
    halves = step_weights("halves", batch_size=4, gradient_accumulation=2, optimizer=sgd)
    torch.testing.assert_close(whole, halves, rtol=1e-5, atol=1e-7)


def test_loss_per_sentence_equals_loss_per_token_at_a_higher_rate(step_weights, pairs) -> None:
    # Only in the first step, because gradients are normalized, not weights.
    mean = float(pairs(8).lengths[1].sum()) / 8
    weights = []
    for unit, rate, clip in (("sentences", 0.1, 0.2 * mean), ("tokens", 0.1 * mean, 0.2)):
        sgd = {"kind": "sgd", "learning_rate": rate, "max_grad_norm": clip, "loss_normalization": unit}
        weights.append(step_weights(unit, batch_size=8, optimizer=sgd))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-7)


def test_recorded_loss_is_the_mean_over_tokens(trainer, settings, pairs, tiny_model, run_dir: Path) -> None:
    config = settings(batch_size=40, max_steps=1, validation={"every_steps": 1})
    trainer(config, dropout=0.0).run()
    model, data = tiny_model(), pairs(40)
    with torch.no_grad():
        outcomes = [model(data.batch([row])).log_likelihood.sum() for row in range(40)]  # type: ignore[list-item]
    tokens = int(data.lengths[1].sum())
    entry = read_metrics(run_dir)[0]
    assert entry["loss"] == pytest.approx(-float(sum(outcomes)) / tokens, rel=1e-5)
    assert entry["perplexity"] == pytest.approx(math.exp(entry["loss"]))
    assert entry["tokens"] == tokens


def test_validation_does_not_depend_on_the_batch(pairs, tiny_model) -> None:
    model = tiny_model(dropout=0.5)
    losses = [validate(model, pairs(30), BatchConfig(batch_size=size)) for size in (1, 7, 30)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    assert model.training


def test_best_model_is_saved_and_patience_stops_training(trainer, settings, run_dir: Path) -> None:
    scores = iter([10.0, 30.0, 20.0, 25.0, 99.0])
    validation = {"every_steps": 2, "metric": "bleu", "early_stopping_patience": 2}
    config = settings(validation=validation, max_steps=50)
    result = trainer(config, translation_metric=lambda model: next(scores)).run()
    assert result.reason == "2 validations without improvement"
    assert (result.progress.step, result.progress.best_score, result.progress.best_step) == (8, 30.0, 4)
    assert read_metadata(run_dir / "model.safetensors")["step"] == 4


def test_bleu_without_search_is_rejected(trainer, settings) -> None:
    with pytest.raises(ConfigError, match="metric"):
        trainer(settings(validation={"metric": "bleu"}))


def test_finished_runs_are_not_changed(trainer, settings, run_dir: Path) -> None:
    trainer(settings()).run()
    before = {path: path.read_bytes() for path in run_dir.rglob("*.safetensors")}
    assert trainer(settings()).run().reason == "12 steps, reached before"
    assert before == {path: path.read_bytes() for path in run_dir.rglob("*.safetensors")}


def test_training_stops_after_the_minutes(trainer, settings) -> None:
    result = trainer(settings(max_minutes=1e-6)).run()
    assert (result.reason, result.progress.step) == ("1e-06 minutes", 1)
    assert result.progress.best_score is not None


def _make_loss_nan(trainer: Trainer, steps: set[int]) -> None:
    """Make the loss of some steps NaN."""
    loss = trainer.train_step.objective

    def loss_with_nan(outcome, smoothing):
        found = loss(outcome, smoothing)
        bad = trainer.state.progress.step + 1 in steps
        return type(found)(found.total * math.nan, found.nll) if bad else found

    trainer.train_step.objective = loss_with_nan


def test_nonfinite_loss_skips_the_step(trainer, settings, run_dir: Path) -> None:
    run = trainer(settings(max_steps=3))
    _make_loss_nan(run, {2})
    before: dict[str, torch.Tensor] = {}
    count = run._count

    def recording_count(figures):
        if run.state.progress.step + 1 == 1:
            before.update(_weights(run))
        elif run.state.progress.step + 1 == 2:
            assert _equal(before, _weights(run))
        count(figures)

    run._count = recording_count
    progress = run.run().progress
    assert (progress.step, progress.skipped_steps) == (3, 1)
    assert not _equal(before, _weights(run))
    assert all(math.isfinite(entry["loss"]) for entry in read_metrics(run_dir))


def test_huge_learning_rate_is_an_error_and_saves_no_model(trainer, settings, run_dir: Path) -> None:
    # The first step is applied; the later ones are skipped, but fewer than ten until the run ends.
    config = settings(optimizer={"kind": "adam", "learning_rate": 1e38}, max_steps=5)
    for _ in range(2):  # the second run resumes if there is a checkpoint
        with pytest.raises(TrainingDivergedError, match=r"validation loss after step 5 is (nan|inf)"):
            trainer(config).run()
    assert not (run_dir / "model.safetensors").exists()
    assert not [entry for entry in read_metrics(run_dir) if entry.get("best")]


def test_nonfinite_validation_loss_keeps_the_best_model(
    trainer, settings, run_dir: Path, monkeypatch
) -> None:
    run = trainer(settings(validation={"every_steps": 2}, max_steps=8))
    scores = iter([2.0, math.nan])
    monkeypatch.setattr("regard.training.trainer.validate", lambda *_: next(scores))
    message = r"after step 4 is nan\. The best model, of step 2, is kept"
    with pytest.raises(TrainingDivergedError, match=message):
        run.run()
    assert read_metadata(run_dir / "model.safetensors")["step"] == 2
    assert read_metadata(state_file(run_dir))["progress"]["step"] == 2


def test_skipped_steps_are_an_error_and_overwrite_no_checkpoint(trainer, settings, run_dir: Path) -> None:
    run = trainer(settings(max_steps=50, validation={"every_steps": 1000}, checkpoint={"every_steps": 1}))
    _make_loss_nan(run, set(range(3, 60)))
    with pytest.raises(TrainingDivergedError, match=r"step 12\. .* lower training\.optimizer\.learning_rate"):
        run.run()
    assert read_metadata(state_file(run_dir))["progress"]["step"] == 2
    run = trainer(settings(max_steps=4), at=run_dir / "none")
    _make_loss_nan(run, {1, 2, 3, 4})
    with pytest.raises(TrainingDivergedError, match="not finite in any of 4 steps"):
        run.run()


def test_frozen_parameters_do_not_change(trainer, settings, tiny_model) -> None:
    before = {name: tensor.clone() for name, tensor in named_weights(tiny_model()).items()}
    run = trainer(settings(freeze=["encoder.*"]))
    run.run()
    after = _weights(run)
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]) == name.startswith("encoder."), name


def test_training_can_start_from_another_model_of_the_same_shapes(
    trainer, settings, tiny_model, tmp_path
) -> None:
    trainer(settings(), at=tmp_path / "first").run()
    config = settings(init_from=str(tmp_path / "first"))
    second = trainer(config, at=tmp_path / "second")
    second._restore()
    assert _equal(_weights(second), load_weights(tmp_path / "first"))
    write_tensors(tmp_path / "wide", named_weights(tiny_model(width=10)), {})
    with pytest.raises(CheckpointError, match=r"wide: .* size mismatch"):
        trainer(settings(init_from=str(tmp_path / "wide"))).run()


def test_training_does_not_restart_if_the_training_state_is_damaged(trainer, settings, run_dir: Path) -> None:
    trainer(settings()).run()
    state_file(run_dir).write_bytes(state_file(run_dir).read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=r"state\.safetensors: truncated.*; remove the file"):
        trainer(settings()).run()
    state_file(run_dir).unlink()
    assert trainer(settings()).run().progress.step == 12


def test_checkpoints_of_the_last_epochs_are_kept(trainer, settings, run_dir: Path) -> None:
    trainer(settings(max_epochs=4, max_steps=0, checkpoint={"keep_last_epochs": 2})).run()
    kept = sorted(path.name for path in (run_dir / "training").glob("epoch-*"))
    assert kept == ["epoch-0003.safetensors", "epoch-0004.safetensors"]


def test_empty_training_data_is_an_error(trainer, settings) -> None:
    with pytest.raises(DataError, match="no sentence pair"):
        trainer(settings(), count=0).run()


def test_bfloat16_trains_float32_parameters(trainer, settings) -> None:
    run = trainer(settings(precision="bfloat16"))
    run.run()
    assert {tensor.dtype for tensor in _weights(run).values()} == {torch.float32}


def test_tensorboard_events_are_written(trainer, settings, run_dir: Path) -> None:
    pytest.importorskip("tensorboard")
    trainer(settings(logging={"every_steps": 4, "tensorboard": True}, max_steps=4)).run()
    assert list((run_dir / "tensorboard").glob("events.*"))


def test_callbacks_follow_the_run(trainer, settings, run_dir: Path) -> None:
    class Recorder(Callback):
        def __init__(self) -> None:
            self.events: list[tuple] = []

        def on_step(self, statistics) -> None:
            self.events.append(("step", statistics.step))

        def on_validation(self, entry) -> None:
            self.events.append(("validation", entry["step"], entry["perplexity"]))

        def on_checkpoint(self, path) -> None:
            self.events.append(("checkpoint", read_metadata(path)["progress"]["step"]))

    recorder = Recorder()
    config = settings(max_steps=4, validation={"every_steps": 2})
    trainer(config, callbacks=[recorder, Callback()]).run()
    scores = [line["perplexity"] for line in read_metrics(run_dir) if line["kind"] == "validation"]
    expected: list[tuple] = []
    for step, score in zip((2, 4), scores, strict=True):
        expected += [("step", step - 1), ("step", step), ("validation", step, score), ("checkpoint", step)]
    assert recorder.events == expected
