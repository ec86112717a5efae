"""Running the jobs of a table, several side by side, each in a process and with a log of its own."""

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
    """Jobs ended with an error; names them and their logs."""


def share_threads(jobs: int) -> int:
    """How many threads each of several jobs gets: its part of the processors, at most `OMP_NUM_THREADS`."""
    share = max(1, available_processors() // jobs)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


def run_all(jobs: Sequence[Job], text: ExperimentText, side_by_side: int, report: Report) -> None:
    """Do what is left of the jobs.

    What several share (prepared text, fertilities, the aligner) is made first.

    Args:
        jobs: The jobs.
        text: Their text.
        side_by_side: How many at once.
        report: Told a line at each start and end.

    Raises:
        Failed: if jobs failed; the others were done.
        KeyboardInterrupt: Ctrl-C or SIGTERM came; the jobs under way have saved what they had.
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
                    failed[job.folder] = f"{job.name}: a model it needs failed"
                while len(running) < side_by_side and (job := _ready(waiting, running)) is not None:
                    waiting.remove(job)
                    running[_start(job)] = job, time.monotonic()
                    report(f"{job.name}: begun, {_log_of(job)}")
                time.sleep(0.2)
                for process in [process for process in running if process.poll() is not None]:
                    job, begun = running.pop(process)
                    if process.returncode:
                        failed[job.folder] = f"{job.name}: status {process.returncode}, {_log_of(job)}"
                        report(f"{job.name}: failed, {_last_line(job)}")
                    else:
                        report(f"{job.name}: done after {(time.monotonic() - begun) / 60:.1f} min")
        except KeyboardInterrupt:
            _stop(running)
            raise
    if failed:
        raise Failed("\n".join(["some runs failed:", *failed.values()]))


def _wanted(jobs: Sequence[Job]) -> list[Job]:
    """The jobs with rows left to do, and those that they need."""
    wanted: set[str] = set()
    for job in reversed(jobs):
        if job.open_rows() or job.folder in wanted:
            wanted |= {job.folder, *job.needs}
    return [job for job in jobs if job.folder in wanted]


def _ready(waiting: Sequence[Job], running: "dict[subprocess.Popen[bytes], tuple[Job, float]]") -> Job | None:
    """The first job that needs none that is still to be done."""
    undone = {job.folder for job in waiting} | {job.folder for job, _ in running.values()}
    return next((job for job in waiting if not job.needs & undone), None)


def _make_shared(jobs: Sequence[Job], text: ExperimentText, report: Report) -> None:
    """Prepare the text, count and predict fertilities, train the aligner."""
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
        report("training the aligner behind DROP")
        train = text.corpora["train"]
        corpus = Corpus.read(train["source"], train["target"])
        train_both(corpus, config_of(DEFAULT), Setting(seed=1)).save(text.aligner)


def _write_actions(text: ExperimentText, report: Report) -> None:
    """Align the characters of forms, for models that walk along the lemma."""
    paths = [Path(text.actions(split)["tsv"]) for split in ("train", "valid")]
    if not all(path.exists() for path in paths):
        report("aligning characters")
        tables = [from_dict(CorpusConfig, text.corpora[split]) for split in ("train", "valid")]
        write_action_tables(tables, paths, Setting(seed=1))


def _log_of(job: Job) -> Path:
    return Path(f"{job.folder}.log")


def _last_line(job: Job) -> str:
    lines = _log_of(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing said"


def _start(job: Job) -> "subprocess.Popen[bytes]":
    """Start a job; it is its own group, so that Ctrl-C reaches it through us alone, once."""
    log = _log_of(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    told = log.with_suffix(".job.json")
    job.write(told)
    environment = dict(os.environ)
    threads = job.config["threads"]
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
    with open(log, "ab") as file:
        return subprocess.Popen(
            # Safe: nothing in the current directory is imported.
            [sys.executable, "-P", "-m", "regard.reproduce.job", str(told), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _stop(running: "dict[subprocess.Popen[bytes], tuple[Job, float]]") -> None:
    """Ask the jobs under way to save and end, and wait for them."""
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait()


@contextlib.contextmanager
def _told_to_stop() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP act as Ctrl-C does; under `nohup` SIGHUP stays ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
