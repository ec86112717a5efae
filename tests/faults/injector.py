"""Ends commands at their write events, or has these fail, and sees that nothing is half-written or lost.

Three laws, for each command, fault and event:

* what was written is as it was before or as it shall be, file by file;
* a command that cannot write says so in one message, without a traceback;
* the same command, given again, does what it would have done, and leaves nothing else behind.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .commands import BASE, COMMANDS, Command, make_old, write_inputs

__all__ = ["Attack", "compiler", "run", "workbench"]

REPOSITORY = Path(__file__).parents[2]
MODES = ("kill", "full", "read-only")
TOLD = ("record.jsonl", "state-", ".lock")
"""Files that hold times, and the lock: of these only that they are readable is asked."""
State = dict[str, str]


@dataclass
class Attack:
    """A row of the table of attacks.

    Attributes:
        name: The command and the fault.
        cases: How many were tried.
        failures: What went wrong, a line each.
    """

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)


def compiler() -> str | None:
    """A C compiler; none where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Workbench:
    """A base of inputs and models, and the process that tries commands on copies of it."""

    def __init__(self, folder: Path, server: "subprocess.Popen[str]") -> None:
        """Keep the parts; see `workbench`."""
        self.base, self.root, self._server = folder / "base", folder / "root", server
        self._wanted: dict[str, tuple[int, State]] = {}

    def ask(self, line: str, mode: str = "none", event: int = 0, root: Path | None = None) -> dict[str, Any]:
        """Try a command line; returns what came of it."""
        assert self._server.stdin is not None and self._server.stdout is not None
        trial = {"arguments": line.split(), "mode": mode, "event": event, "root": str(root or self.root)}
        print(json.dumps(trial), file=self._server.stdin, flush=True)
        answer = self._server.stdout.readline()
        assert answer, "the process that tries commands has ended"
        return json.loads(answer)

    def lay_out(self, command: Command) -> None:
        """Make the root what a command starts from."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        for path in (*self.base.glob("*.toml"), *self.base.glob("*.tsv")):
            shutil.copy2(path, self.root)
        for name in command.needs:
            path = self.base / name
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, self.root / name)

    def wanted(self, command: Command) -> tuple[int, State]:
        """How many write events a command has, and what it writes, undisturbed."""
        if command.name not in self._wanted:
            # Twice: what is loaded or compiled at the first time would count.
            for mode in ("warm", "none"):
                self.lay_out(command)
                done = self.ask(command.line, mode)
                assert done["status"] == 0, f"{command.name}: {done}"
            assert done["events"], f"{command.name}: writes nothing"
            self._wanted[command.name] = done["events"], self.state(command)
        return self._wanted[command.name]

    def state(self, command: Command) -> State:
        """The checksums of a command's outputs, by their paths; absent ones are left out."""
        found = {}
        for name in command.outputs:
            path = self.root / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file() and not file.name.startswith(TOLD):
                    own = str(file.relative_to(self.root))
                    found[own] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found


@contextmanager
def workbench(folder: Path) -> Iterator[Workbench]:
    """Compile the fault, start the process, and make the base.

    Args:
        folder: Where; empty.
    """
    library = folder / "injector.so"
    source = Path(__file__).with_name("injector.c")
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
        "PYTHONPATH": f"{REPOSITORY / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    server = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("injector_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        bench = Workbench(folder, server)
        bench.base.mkdir()
        write_inputs(bench.base)
        for line in BASE:
            done = bench.ask(line, "warm", root=bench.base)
            assert done["status"] == 0, f"{line}: {done}"
            make_old(bench.base)
        yield bench
    finally:
        server.kill()
        server.communicate()


def attack(bench: Workbench, command: Command, mode: str, event: int) -> list[str]:
    """Disturb a command at an event, then give it again; returns what went wrong.

    Args:
        bench: The workbench.
        command: The command.
        mode: `kill`, `full` or `read-only`.
        event: Which of its write events, from 1.
    """
    _, wanted = bench.wanted(command)
    bench.lay_out(command)
    before = bench.state(command)
    done = bench.ask(command.line, mode, event)
    where = f"{command.name}, {mode} at event {event}"
    problems = []
    if done["hung"]:
        problems.append(f"{where}: hangs")
    if "Traceback" in done["said"]:
        problems.append(f"{where}: traceback: {done['said'][-600:]}")
    elif mode != "kill" and done["status"] not in (0, 1):
        problems.append(f"{where}: status {done['status']}: {done['said'][-300:]}")
    elif mode != "kill" and done["status"] == 1 and "regard: " not in done["said"]:
        problems.append(f"{where}: no message: {done['said'][-300:]}")
    problems += [f"{where}: {problem}" for problem in _torn(bench, command, before, wanted)]
    finished = command.once and bench.state(command) == wanted
    again = done if finished else bench.ask(command.line)
    if again["status"] != 0 and not finished:
        return [*problems, f"{where}: cannot be run again: {again['said'][-600:]}"]
    problems += [f"{where}, run again: {problem}" for problem in _other(bench.state(command), wanted)]
    left = [path.name for path in bench.root.rglob(".*") if path.name not in (".lock", *wanted)]
    if left:
        problems.append(f"{where}: leaves {', '.join(left)}")
    return problems


def _torn(bench: Workbench, command: Command, before: State, wanted: State) -> list[str]:
    """The outputs that are neither as before nor as they shall be."""
    found = {name: own for name, own in bench.state(command).items() if ".partial" not in name}
    if not command.whole:
        # What training writes on its way is none of the two; that each file is whole shows in going on.
        return []
    problems = []
    for output in command.outputs:
        old, new, now = (
            {name: own for name, own in state.items() if name == output or name.startswith(f"{output}/")}
            for state in (before, wanted, found)
        )
        if now not in (old, new):
            problems.append(f"{output} is neither the old one nor the new one")
    return problems


def _other(found: State, wanted: State) -> list[str]:
    """The files that are not as they shall be."""
    return [
        f"{name} differs"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]


def chosen(
    bench: Workbench, cases: int, seed: int, commands: Sequence[Command]
) -> list[tuple[Command, str, int]]:
    """The cases to try: all there are, or so many of them, drawn evenly over commands and faults."""
    draw = random.Random(seed)
    by_kind = [
        [(command, mode, event) for event in range(1, bench.wanted(command)[0] + 1)]
        for command in commands
        for mode in MODES
    ]
    for kind in by_kind:
        draw.shuffle(kind)
    draw.shuffle(by_kind)
    found = []
    while any(by_kind) and (not cases or len(found) < cases):
        for kind in by_kind:
            if kind:
                found.append(kind.pop())
    return found[:cases] if cases else found


def run(cases: int, seed: int, commands: Sequence[Command] = COMMANDS) -> list[Attack]:
    """Try cases; returns the table of attacks, a row each command and fault.

    Args:
        cases: How many; 0: every write event of every command, with every fault.
        seed: Which.
        commands: Which commands.
    """
    table: dict[str, Attack] = {}
    with tempfile.TemporaryDirectory() as name, workbench(Path(name).resolve()) as bench:
        for command, mode, event in chosen(bench, cases, seed, commands):
            row = table.setdefault(f"{command.name}, {mode}", Attack(f"{command.name}, {mode}"))
            row.cases += 1
            row.failures += attack(bench, command, mode, event)
    return list(table.values())
