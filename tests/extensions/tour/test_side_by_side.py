"""Training of several systems at the same time: equal weights, signals, and processes that fail."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.extensions.tour import runner, side_by_side
from regard.extensions.tour.runner import SYSTEMS, Tour, TrainingInterruptedError
from regard.extensions.tour.side_by_side import train_side_by_side
from regard.run_config import RunConfig
from warm_python import warm_python

CHOSEN = [system for system in SYSTEMS if system.name in ("soft", "constrained")]


@pytest.fixture
def tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tour:
    monkeypatch.setattr(side_by_side, "_num_threads", lambda: 2)
    return made_tour(tmp_path / "first")


def made_tour(directory: Path) -> Tour:
    made = Tour(
        directory, {"train": 60, "valid": 8, "test": 8}, ("training.max_steps=2", "training.max_epochs=1")
    )
    made.write_corpus()
    return made


def weights(tour: Tour) -> list[bytes]:
    return [(tour.model_dir(system) / "model.safetensors").read_bytes() for system in CHOSEN]


def test_models_equal_those_that_are_trained_one_after_another(tour, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", warm_python())
    train_side_by_side(tour, CHOSEN, nullcontext)
    found = weights(tour)
    log = tour.model_dir(CHOSEN[0]).with_suffix(".log")
    other = made_tour(tmp_path / "second")
    for system in CHOSEN:
        other.train(system, nullcontext)
    assert found == weights(other), log.read_text()
    # The trained models are measured.
    assert tour.train(CHOSEN[0], nullcontext).num_parameters > 100
    assert weights(tour) == found


def test_system_whose_process_failed_is_trained_later(tour, monkeypatch) -> None:
    def fail(*_: object) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    monkeypatch.setattr(side_by_side, "start_module", fail)
    trained = []

    def train(config: RunConfig, *_: object) -> SimpleNamespace:
        trained.append(config)
        return SimpleNamespace(signal=None)

    monkeypatch.setattr(side_by_side, "run_training", train)
    train_side_by_side(tour, CHOSEN, nullcontext)
    assert [one.model.attention.kind for one in trained] == [tour.config(CHOSEN[1]).model.attention.kind]
    assert not tour.model_dir(CHOSEN[0]).exists()
    monkeypatch.setattr(runner, "_measure", lambda *_: runner.Costs(1.0, 1.0, 1, 1.0, 1.0))
    assert tour.train(CHOSEN[0], nullcontext).num_parameters == 1
    assert tour.model_dir(CHOSEN[0]).is_dir()


@pytest.mark.parametrize("received", [signal.SIGINT, signal.SIGTERM])
def test_other_processes_are_stopped_when_this_one_is(tour, monkeypatch, received) -> None:
    started = []

    def wait(*_: object) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[0]

    monkeypatch.setattr(side_by_side, "start_module", wait)
    monkeypatch.setattr(side_by_side, "run_training", lambda *_: SimpleNamespace(signal=received))
    with pytest.raises(TrainingInterruptedError) as caught:
        train_side_by_side(tour, CHOSEN, nullcontext)
    assert caught.value.signal == received and started[0].returncode == -signal.SIGTERM


@pytest.mark.parametrize(("threads", "systems"), [(1, CHOSEN), (2, CHOSEN[:1]), (2, [])])
def test_no_process_is_started_without_a_processor_for_each(tour, monkeypatch, threads, systems) -> None:
    monkeypatch.setattr(side_by_side, "_num_threads", lambda: threads)
    monkeypatch.setattr(side_by_side, "start_module", None)
    train_side_by_side(tour, systems, nullcontext)
    assert not tour.model_dir(CHOSEN[0]).exists()


@pytest.mark.parametrize(("allowed", "expected"), [("", 4), ("0", 4), ("2", 2), ("8", 4), ("2,1", 4)])
def test_threads_are_limited_by_the_environment(monkeypatch, allowed, expected) -> None:
    monkeypatch.setattr(side_by_side, "num_available_cpus", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert side_by_side._num_threads() == expected


def test_systems_can_be_trained_in_another_thread(tour, monkeypatch) -> None:
    monkeypatch.setattr(
        side_by_side, "start_module", lambda *_: subprocess.Popen([sys.executable, "-c", "pass"])
    )
    monkeypatch.setattr(side_by_side, "run_training", lambda *_: SimpleNamespace(signal=None))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train_side_by_side, tour, CHOSEN, nullcontext).result() is None
