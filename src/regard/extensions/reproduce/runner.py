"""Execution of the jobs of a table, one after another."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.alignment.pointer_actions import write_action_tables
from regard.config import from_dict
from regard.errors import RegardError, TrainingInterruptedError
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.job import run
from regard.extensions.reproduce.plan import TableJob
from regard.text.corpus import CorpusConfig
from regard.text.files import remove_leftovers
from regard.text.tokenizers.words import ActionsConfig
from regard.training.run_config import RunConfig

__all__ = ["JobsFailedError", "run_jobs"]

ReportFunction = Callable[[str], None]


class JobsFailedError(RegardError):
    """Raised if jobs ended with an error; the message names the jobs and the errors."""


def run_jobs(jobs: Sequence[TableJob], text: ExperimentText, report: ReportFunction) -> None:
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
            run(job)
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


def _create_shared_files(jobs: Sequence[TableJob], text: ExperimentText, report: ReportFunction) -> None:
    """Align the characters of inflection tables, and train the aligner for DROP."""
    configs = (from_dict(RunConfig, job.config) for job in jobs)
    if any(isinstance(config.data.target_tokenizer, ActionsConfig) for config in configs):
        _write_actions(text, report)
    if "drop" in jobs[0].metrics and not text.aligner.exists():
        report("training the aligner for DROP")
        train = text.corpora["train"]
        corpus = Corpus.read(train["source"], train["target"])
        train_both(corpus, default_config(DEFAULT_ALIGNER), TrainingSetup(seed=1)).save(text.aligner)


def _write_actions(text: ExperimentText, report: ReportFunction) -> None:
    """Align the characters of lemmas and forms, for models that predict edit actions along the lemma."""
    paths = [Path(text.actions(split)["tsv"]) for split in ("train", "valid")]
    if not all(path.exists() for path in paths):
        report("aligning characters")
        tables = [from_dict(CorpusConfig, text.corpora[split]) for split in ("train", "valid")]
        write_action_tables(tables, paths, TrainingSetup(seed=1))
