"""Fuzzing of every input format, in this process.

The requirements: a command ends with its result or with one message, and never with a traceback. It ends
within a time limit and, where one is given, within a memory limit. A changed file that has a checksum is
rejected, or the result is the unchanged one.
"""

import contextlib
import logging
import os
import random
import resource
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quick_coverage import train_quickly
from regard.cli.main import app
from regard.errors import RegardError

from .commands import write_inputs
from .fuzzer_inputs import MAKES, TARGETS, Target, mutated, write_more
from .fuzzer_structure import forge
from .injector import Attack

SECONDS = 60


class Hang(BaseException):
    """Raised when a command takes too long; no command catches it."""


def _call(line: Sequence[str]) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, list(line))


def _invoke(line: Sequence[str]) -> tuple[str, str]:
    """Run a command line; return its output and a description of the failure, if any."""
    result = _call(line)
    error = result.exception
    if error is None or isinstance(error, SystemExit | RegardError):
        ended = error.exit_status if isinstance(error, RegardError) else result.exit_code
        wrong = "" if ended in (0, 1, 2) else f"exit status {ended}"
        return (result.stdout if ended == 0 else ""), wrong
    if isinstance(error, OSError) and error.filename is not None:
        # `regard.cli.main.main` turns it into one message, e.g. for a name that is too long.
        return "", ""
    last = traceback.extract_tb(error.__traceback__)
    own = [one for one in last if "/regard/" in one.filename] or last
    where = f"{own[-1].filename.rpartition('/regard/')[2]}:{own[-1].lineno}" if own else "nowhere"
    return "", f"{type(error).__name__} at {where}: {str(error)[:120]!r}"


def attack(root: Path, target: Target, rng: random.Random, wanted: str) -> str:
    """Change one file of a target and run its command; return a description of the failure, or "".

    In half of the cases, the checksums of the file are written again.
    """
    path = rng.choice(sorted(one for one in root.glob(target.files) if one.is_file()))
    before = {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    forged = rng.random() < 0.5
    if forged:
        forge(path, rng)
    else:
        path.write_bytes(mutated(before[path], rng))
    try:
        answer, wrong = _timed(target.line.split())
    finally:
        for file, content in before.items():
            file.write_bytes(content)
    if not wrong and target.sealed and not forged and answer not in ("", wanted):
        wrong = "a different result without a message"
    return f"{path.relative_to(root)}: {wrong}" if wrong else ""


def _timed(line: Sequence[str]) -> tuple[str, str]:
    def stop(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return _invoke(line)
    except Hang:
        return "", f"ran for more than {SECONDS} seconds"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def base(directory: Path) -> Iterator[Path]:
    """Create the files and models that are changed, and work in their directory."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        write_inputs(directory)
        with pytest.MonkeyPatch.context() as patch:
            train_quickly(patch)
            for line in MAKES:
                _, wrong = _invoke(line.split())
                assert not wrong, f"{line}: {wrong}"
        write_more(directory)
        yield directory
    finally:
        os.chdir(before)


@contextlib.contextmanager
def limited(megabytes: int | None) -> Iterator[None]:
    """Limit the memory that this process may allocate in addition to its present memory."""
    if megabytes is None:
        yield
        return
    status = Path("/proc/self/status").read_text()
    data = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData"))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data + (megabytes << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def run(cases: int, seed: int, memory_limit: int | None = None) -> list[Attack]:
    """Fuzz the inputs.

    Args:
        cases: Number of cases, in turn over the kinds of input. 0 means 1,000.
        seed: Seed that selects the cases.
        memory_limit: MiB that the process may allocate in addition to its initial memory. Default: no limit.

    Returns:
        One row per kind of input.
    """
    rows = {target.name: Attack(target.name) for target in TARGETS}
    with tempfile.TemporaryDirectory() as name, _quiet():
        directory = Path(name).resolve() / "base"
        directory.mkdir()
        with base(directory) as root:
            wanted = {}
            for target in TARGETS:
                ended = _call(target.line.split())
                # Otherwise every case of the target would test the same usage error.
                assert ended.exit_code == 0, f"{target.line}: {ended.output}{ended.exception}"
                wanted[target.name] = ended.stdout
            with limited(memory_limit):
                for case in range(cases or 1000):
                    rng = random.Random(f"{seed} {case}")
                    target = TARGETS[case % len(TARGETS)]
                    row, wrong = rows[target.name], attack(root, target, rng, wanted[target.name])
                    row.cases += 1
                    if wrong:
                        row.failures.append(f"case {case} of seed {seed}, {row.name}: {wrong}")
    return list(rows.values())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
