"""Parallel execution of the jobs of a table, each in its own process with its own log file."""

import logging
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.pointer_actions import write_action_tables
from regard.alignment.word_aligner import DEFAULT_ALIGNER, default_config
from regard.child_processes import interrupt_on_signals, start_module, stop_processes
from regard.config import from_dict
from regard.cpu_threads import num_available_cpus
from regard.data.dataset import prepare_data
from regard.errors import RegardError
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.plan import TableJob
from regard.run_config import RunConfig
from regard.text.corpus import CorpusConfig
from regard.text.files import remove_leftovers
from regard.text.tokenizers.words import ActionsConfig
from regard.training.fertility import add_fertilities

__all__ = ["JobsFailedError", "run_jobs", "threads_per_job"]

_log = logging.getLogger(__name__)
ReportFunction = Callable[[str], None]


class JobsFailedError(RegardError):
    """Raised if jobs ended with an error; the message names the jobs and their log files."""


def threads_per_job(num_jobs: int) -> int:
    """Return the number of threads per job: its share of the processors, at most `OMP_NUM_THREADS`."""
    share = max(1, num_available_cpus() // num_jobs)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


def run_jobs(
    jobs: Sequence[TableJob], text: ExperimentText, num_parallel: int, report: ReportFunction
) -> None:
    """Run the unfinished jobs.

    Files that several jobs share (prepared text, fertilities, the aligner) are created first.

    Args:
        jobs: The jobs.
        text: The text of the experiment.
        num_parallel: The number of jobs that run at the same time.
        report: A function that receives one line at the start and the end of each job.

    Raises:
        JobsFailedError: if jobs failed; all others were completed.
        KeyboardInterrupt: if Ctrl-C or SIGTERM was received; the running jobs have saved their state.
    """
    for directory in {row.path("json").parent for job in jobs for row in job.rows}:
        remove_leftovers(directory)
    waiting = _unfinished_jobs(jobs)
    if not waiting:
        return
    running: dict[subprocess.Popen[bytes], tuple[TableJob, float]] = {}
    failed: dict[str, str] = {}
    with interrupt_on_signals():
        try:
            # Parallel jobs would otherwise each create the same files at the same time.
            _create_shared_files(waiting, text, report)
            while waiting or running:
                for job in [job for job in waiting if job.required_dirs & failed.keys()]:
                    waiting.remove(job)
                    failed[job.output_dir] = f"{job.name}: not run, because a model that it needs failed"
                while len(running) < num_parallel and (job := _ready(waiting, running)) is not None:
                    waiting.remove(job)
                    running[_start(job)] = job, time.monotonic()
                    report(f"{job.name}: started, log in {_log_path(job)}")
                time.sleep(0.2)  # runs take minutes, so that this delay does not matter
                for process in [process for process in running if process.poll() is not None]:
                    job, start = running.pop(process)
                    if process.returncode:
                        failed[job.output_dir] = (
                            f"{job.name}: status {process.returncode}, see {_log_path(job)}"
                        )
                        report(f"{job.name}: failed: {_last_line(job)}")
                    else:
                        report(f"{job.name}: done after {(time.monotonic() - start) / 60:.1f} min")
        except KeyboardInterrupt:
            stop_processes(running)
            raise
    if failed:
        raise JobsFailedError("\n".join(["some runs failed:", *failed.values()]))


def _unfinished_jobs(jobs: Sequence[TableJob]) -> list[TableJob]:
    """Return the jobs with unfinished rows, and the jobs whose models they need."""
    wanted: set[str] = set()
    # Backward, because the models that a job needs precede it.
    for job in reversed(jobs):
        if job.unfinished_rows() or job.output_dir in wanted:
            wanted |= {job.output_dir, *job.required_dirs}
    return [job for job in jobs if job.output_dir in wanted]


def _ready(
    waiting: Sequence[TableJob], running: "dict[subprocess.Popen[bytes], tuple[TableJob, float]]"
) -> TableJob | None:
    """Return the first job whose required models are finished."""
    undone = {job.output_dir for job in waiting} | {job.output_dir for job, _ in running.values()}
    return next((job for job in waiting if not job.required_dirs & undone), None)


def _create_shared_files(jobs: Sequence[TableJob], text: ExperimentText, report: ReportFunction) -> None:
    """Prepare the text, compute the fertilities and train the aligner for DROP."""
    prepared_data = []
    for job in jobs:
        config = from_dict(RunConfig, job.config)
        if isinstance(config.data.target_tokenizer, ActionsConfig):
            _write_actions(text, report)
        # Rows share the prepared text, except for their fertilities.
        if (key := (config.data.cache_dir, config.data.fertility)) not in prepared_data:
            prepared_data.append(key)
            prepared = prepare_data(config.data)
            add_fertilities(prepared, config.data.fertility, prepared.fingerprint)
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


def _log_path(job: TableJob) -> Path:
    return Path(f"{job.output_dir}.log")


def _last_line(job: TableJob) -> str:
    lines = _log_path(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "the log file is empty"


def _start(job: TableJob) -> "subprocess.Popen[bytes]":
    log = _log_path(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    description = log.with_suffix(".job.json")
    job.write(description)
    return start_module("regard.extensions.reproduce.job", [str(description)], log, job.config["num_threads"])
