"""The jobs of a table, one after another: train a model, then translate and score its rows.

If a signal stops the training, its state is saved, and running the job again resumes it.
"""

import dataclasses
import logging
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from regard import __version__
from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.alignment.pointer_actions import write_action_tables
from regard.config import from_dict
from regard.errors import RegardError, TrainingInterruptedError
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.plan import RowJob, TableJob
from regard.extensions.reproduce.scores import METRIC_FUNCTIONS, ScoredSystem
from regard.generation.config import GenerationConfig
from regard.generation.ensemble import Ensemble
from regard.generation.neural_translator import NeuralTranslator
from regard.generation.tune_penalties import PenaltyTuningOptions, tune_penalties
from regard.runs.loading import LoadedModel, load_model
from regard.text.array_files import load_arrays
from regard.text.corpus import CorpusConfig
from regard.text.files import format_json, remove_leftovers, write_atomic
from regard.text.tokenizers.words import ActionsConfig
from regard.training.display import preparation_progress
from regard.training.metrics_logger import read_metrics
from regard.training.run import run_training as train
from regard.training.trainer import TrainingResult

_log = logging.getLogger(__name__)


def run(job: TableJob, text: ExperimentText) -> None:
    """Train the models of a job and compute its unfinished rows.

    Raises:
        TrainingInterruptedError: if a signal stopped training.
    """
    results = []
    for number, directory in enumerate(job.member_dirs):
        # The members of an ensemble are trained by earlier jobs; `train` then only returns their results.
        seeded = dataclasses.replace(job.config, seed=job.seed + number)
        results.append(train(seeded, directory, preparation_progress))
        if results[-1].signal is not None:
            raise TrainingInterruptedError(results[-1].signal)
    rows = job.unfinished_rows()
    if not rows:
        return
    members = [load_model(member_dir, job.config.device) for member_dir in job.member_dirs]
    # All members have the text processing and the config of the first one; only their weights differ.
    loaded = members[0]
    if len(members) > 1:
        loaded = dataclasses.replace(loaded, model=Ensemble([member.model for member in members]))
    for row in rows:
        _log.info("scoring %s", row.recipe)
        _score(job, row, loaded, text, results)


def _score(
    job: TableJob, row: RowJob, loaded: LoadedModel, text: ExperimentText, results: Sequence[TrainingResult]
) -> None:
    """Translate the test text and write the scores; the JSON file, which marks the row as finished, is last.

    Scores that the row already has from another table are kept.
    """
    done = row.read_scores() or {"scores": {}, "signatures": {}}
    # Penalties that were tuned for another table are kept: with others, the row would have other scores.
    search, trials = from_dict(GenerationConfig, row.search), done.get("tuned", [])
    if trials:
        search = _with_penalties(search, done["length_penalty"], done["coverage_penalty"])
    elif row.penalties:
        search, trials = _tune_penalties(row, loaded, search, text)
    sources, references = (text.lines(job.split, side) for side in ("source", "target"))
    system = ScoredSystem(loaded, text, sources, references, search)
    # The translations are timed before any metric uses them, as `outputs` keeps them.
    begun = time.monotonic()
    outputs = system.outputs()
    seconds = time.monotonic() - begun
    counts = {
        name: METRIC_FUNCTIONS[name].count(system) for name in job.metrics if name not in done["scores"]
    }
    statistics = load_arrays(row.path("safetensors")) if done["scores"] else {}
    statistics |= {name: np.ascontiguousarray(count.rows) for name, count in counts.items()}
    row.path("txt").parent.mkdir(parents=True, exist_ok=True)
    write_atomic(row.path("txt"), "".join(f"{line}\n" for line in outputs).encode())
    write_atomic(row.path("safetensors"), save(statistics))
    device = loaded.device
    figures: dict[str, Any] = {
        "digest": row.checksum,
        "row": row.recipe,
        "model": job.model,
        "seed": job.seed,
        "scores": done["scores"] | {name: count.corpus_score() for name, count in counts.items()},
        "signatures": done["signatures"] | {name: count.signature for name, count in counts.items()},
        "length_penalty": search.length_penalty,
        "coverage_penalty": search.coverage_penalty.weight,
        "tuned": trials,
        **_training(job, results),
        "search_seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "num_threads": torch.get_num_threads(),
        "versions": {"regard": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    write_atomic(row.path("json"), (format_json(figures, indent=2) + "\n").encode())


def _tune_penalties(
    row: RowJob, loaded: LoadedModel, search: GenerationConfig, text: ExperimentText
) -> tuple[GenerationConfig, list[dict[str, Any]]]:
    """Return the search with the best penalties by tokenized BLEU on the validation text, and all trials."""
    sources, references = (text.lines("valid", side) for side in ("source", "target"))
    translator = NeuralTranslator(loaded.model, loaded.text, search)
    options = PenaltyTuningOptions(row.penalties, row.penalties, "none", lowercase=True)
    result = tune_penalties(translator, sources, references, options)
    best = result.best
    chosen = _with_penalties(search, best.length_penalty, best.coverage_penalty)
    return chosen, [dataclasses.asdict(trial) for trial in result.trials]


def _with_penalties(search: GenerationConfig, length: float, coverage: float) -> GenerationConfig:
    penalty = dataclasses.replace(search.coverage_penalty, weight=coverage)
    return dataclasses.replace(search, length_penalty=length, coverage_penalty=penalty)


def _training(job: TableJob, results: Sequence[TrainingResult]) -> dict[str, Any]:
    """Return the training statistics; for an ensemble: the time of all, the rest of the first member."""
    # Each improvement is marked as best, so the last mark belongs to the kept checkpoint.
    best = [entry for entry in read_metrics(job.member_dirs[0]) if entry.get("best")]
    return {
        "steps": results[0].progress.step,
        "training_seconds": round(sum(result.progress.seconds for result in results), 1),
        "validation_perplexity": best[-1]["perplexity"] if best else None,
    }


class JobsFailedError(RegardError):
    """Raised if jobs ended with an error; the message names the jobs and the errors."""


def run_jobs(jobs: Sequence[TableJob], text: ExperimentText, report: Callable[[str], None]) -> None:
    """Run the unfinished jobs. A job that fails does not keep the others from running.

    Args:
        jobs: The jobs. The models that a job needs precede it.
        text: The text of the experiment.
        report: A function that receives one line at the start and the end of each job.

    Raises:
        TrainingInterruptedError: if a signal stopped a training, whose state is saved.
        JobsFailedError: if jobs failed; all others were completed.
    """
    for directory in {row.path("json").parent for job in jobs for row in job.rows}:
        remove_leftovers(directory)
    unfinished = _unfinished_jobs(jobs)
    if unfinished:
        _create_shared_files(unfinished, text, report)
    failures: dict[str, str] = {}
    for job in unfinished:
        if job.required_dirs & failures.keys():
            failures[job.output_dir] = f"{job.name}: not run, because a model that it needs failed"
            continue
        report(f"{job.name}: started")
        start = time.monotonic()
        try:
            run(job, text)
        except TrainingInterruptedError:
            raise
        except RegardError as error:
            failures[job.output_dir] = f"{job.name}: {error}"
            report(f"{job.name}: failed: {error}")
            continue
        report(f"{job.name}: done after {(time.monotonic() - start) / 60:.1f} min")
    if failures:
        raise JobsFailedError("\n".join(["some runs failed:", *failures.values()]))


def _unfinished_jobs(jobs: Sequence[TableJob]) -> list[TableJob]:
    """Return the jobs with unfinished rows, and the jobs whose models they need."""
    wanted: set[str] = set()
    # Backward, because the models that a job needs precede it.
    for job in reversed(jobs):
        if job.unfinished_rows() or job.output_dir in wanted:
            wanted |= {job.output_dir, *job.required_dirs}
    return [job for job in jobs if job.output_dir in wanted]


def _create_shared_files(
    jobs: Sequence[TableJob], text: ExperimentText, report: Callable[[str], None]
) -> None:
    """Align the characters of inflection tables, and train the aligner for DROP."""
    if any(isinstance(job.config.data.target_tokenizer, ActionsConfig) for job in jobs):
        # Models that predict edit actions along the lemma need links of the characters of lemmas and forms.
        paths = [Path(text.actions(split)["file"]) for split in ("train", "valid")]
        if not all(path.exists() for path in paths):
            report("aligning characters")
            tables = [from_dict(CorpusConfig, text.corpora[split]) for split in ("train", "valid")]
            write_action_tables(tables, paths, TrainingSetup(seed=1))
    if "drop" in jobs[0].metrics and not text.aligner.exists():
        report("training the aligner for DROP")
        train = text.corpora["train"]
        corpus = Corpus.read(CorpusConfig(source=train["source"], target=train["target"]))
        train_both(corpus, default_config(DEFAULT_ALIGNER), TrainingSetup(seed=1)).save(text.aligner)
