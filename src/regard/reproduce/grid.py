"""Parallel execution of the jobs of a table, each in its own process with its own log file."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from regard.alignment import Corpus, Setting, train_both
from regard.alignment.actions import write_action_tables
from regard.alignment.registry import DEFAULT, config_of
from regard.config import from_dict
from regard.data.corpus import CorpusConfig
from regard.data.partial import remove_leftovers
from regard.data.prepared import prepare
from regard.data.tokenizer import ActionsConfig
from regard.errors import RegardError
from regard.experiment import RunConfig
from regard.processors import available_processors
from regard.reproduce.plan import Job
from regard.reproduce.texts import ExperimentText
from regard.training.fertility import with_fertilities

__all__ = ["Failed", "run_all", "share_threads"]

_log = logging.getLogger(__name__)
Report = Callable[[str], None]


class Failed(RegardError):
    """Raised if jobs ended with an error; the message names the jobs and their log files."""


def share_threads(jobs: int) -> int:
    """Return the number of threads per job: its share of the processors, at most `OMP_NUM_THREADS`."""
    share = max(1, available_processors() // jobs)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


def run_all(jobs: Sequence[Job], text: ExperimentText, side_by_side: int, report: Report) -> None:
    """Run the unfinished jobs.

    Files that several jobs share (prepared text, fertilities, the aligner) are created first.

    Args:
        jobs: The jobs.
        text: The text of the experiment.
        side_by_side: The number of jobs that run at the same time.
        report: A function that receives one line at the start and the end of each job.

    Raises:
        Failed: if jobs failed; all others were completed.
        KeyboardInterrupt: if Ctrl-C or SIGTERM was received; the running jobs have saved their state.
    """
    for place in {row.path("json").parent for job in jobs for row in job.rows}:
        remove_leftovers(place)
    waiting = _wanted(jobs)
    if not waiting:
        return
    running: dict[subprocess.Popen[bytes], tuple[Job, float]] = {}
    failed: dict[str, str] = {}
    with _told_to_stop():
        try:
            _make_shared(waiting, text, report)
            while waiting or running:
                for job in [job for job in waiting if job.needs & failed.keys()]:
                    waiting.remove(job)
                    failed[job.folder] = f"{job.name}: not run, because a model that it needs failed"
                while len(running) < side_by_side and (job := _ready(waiting, running)) is not None:
                    waiting.remove(job)
                    running[_start(job)] = job, time.monotonic()
                    report(f"{job.name}: started, log in {_log_of(job)}")
                time.sleep(0.2)
                for process in [process for process in running if process.poll() is not None]:
                    job, begun = running.pop(process)
                    if process.returncode:
                        failed[job.folder] = f"{job.name}: status {process.returncode}, see {_log_of(job)}"
                        report(f"{job.name}: failed: {_last_line(job)}")
                    else:
                        report(f"{job.name}: done after {(time.monotonic() - begun) / 60:.1f} min")
        except KeyboardInterrupt:
            _stop(running)
            raise
    if failed:
        raise Failed("\n".join(["some runs failed:", *failed.values()]))


def _wanted(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs with unfinished rows, and the jobs whose models they need."""
    wanted: set[str] = set()
    for job in reversed(jobs):
        if job.open_rows() or job.folder in wanted:
            wanted |= {job.folder, *job.needs}
    return [job for job in jobs if job.folder in wanted]


def _ready(waiting: Sequence[Job], running: "dict[subprocess.Popen[bytes], tuple[Job, float]]") -> Job | None:
    """Return the first job whose required models are finished."""
    undone = {job.folder for job in waiting} | {job.folder for job, _ in running.values()}
    return next((job for job in waiting if not job.needs & undone), None)


def _make_shared(jobs: Sequence[Job], text: ExperimentText, report: Report) -> None:
    """Prepare the text, compute the fertilities and train the aligner for DROP."""
    made = []
    for job in jobs:
        config = from_dict(RunConfig, job.config)
        if isinstance(config.data.target_tokenizer, ActionsConfig):
            _write_actions(text, report)
        if (wanted := (config.data.folder, config.data.fertility)) not in made:
            made.append(wanted)
            prepared = prepare(config.data)
            with_fertilities(prepared, config.data.fertility, prepared.fingerprint)
    if "drop" in jobs[0].metrics and not text.aligner.exists():
        report("training the aligner for DROP")
        train = text.corpora["train"]
        corpus = Corpus.read(train["source"], train["target"])
        train_both(corpus, config_of(DEFAULT), Setting(seed=1)).save(text.aligner)


def _write_actions(text: ExperimentText, report: Report) -> None:
    """Align the characters of lemmas and forms, for models that predict edit actions along the lemma."""
    paths = [Path(text.actions(split)["tsv"]) for split in ("train", "valid")]
    if not all(path.exists() for path in paths):
        report("aligning characters")
        tables = [from_dict(CorpusConfig, text.corpora[split]) for split in ("train", "valid")]
        write_action_tables(tables, paths, Setting(seed=1))


def _log_of(job: Job) -> Path:
    return Path(f"{job.folder}.log")


def _last_line(job: Job) -> str:
    lines = _log_of(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "the log file is empty"


def _start(job: Job) -> "subprocess.Popen[bytes]":
    """Start a job in its own session, so that Ctrl-C reaches it only through this process, and once."""
    log = _log_of(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    description = log.with_suffix(".job.json")
    job.write(description)
    environment = dict(os.environ)
    threads = job.config["threads"]
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
    with open(log, "ab") as file:
        return subprocess.Popen(
            # `-P` keeps the current directory out of the import path.
            [sys.executable, "-P", "-m", "regard.reproduce.job", str(description), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _stop(running: "dict[subprocess.Popen[bytes], tuple[Job, float]]") -> None:
    """Send SIGTERM to the running jobs, which then save their state, and wait for them."""
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait()


@contextlib.contextmanager
def _told_to_stop() -> Iterator[None]:
    """Return a context in which SIGTERM and SIGHUP act like Ctrl-C; under `nohup` SIGHUP stays ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
