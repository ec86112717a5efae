"""Fault injection: stop commands at their write events, or make the events fail, and check the files.

There are three requirements, for each command, fault and event:

* every output file is either the old one or the new one;
* a command that cannot write reports this in one message, without a traceback;
* the same command, run again, gives its usual result, and leaves no other files.
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

from .commands import BASE, COMMANDS, Command, write_inputs

REPOSITORY = Path(__file__).parents[2]
MODES = ("kill", "full", "read-only")
UNCOMPARED = ("record.jsonl", "state.", ".lock")
"""Prefixes of files that contain times, and of the lock: these are not compared."""
State = dict[str, str]


@dataclass
class Attack:
    """One row of the table of attacks.

    Attributes:
        name: The command and the fault.
        cases: Number of cases tried.
        failures: One line per failure.
    """

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)


def compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Workbench:
    """The inputs and models of the base, and the process that runs commands on copies of it."""

    def __init__(self, directory: Path, server: "subprocess.Popen[str]") -> None:
        """Store the parts; see `workbench`."""
        self.base, self.root, self._server = directory / "base", directory / "root", server
        self._wanted: dict[str, tuple[int, State]] = {}

    def run_trial(
        self, line: str, mode: str = "none", event: int = 0, root: Path | None = None
    ) -> dict[str, Any]:
        """Run a command line, with a fault at an event, and return the result."""
        assert self._server.stdin is not None and self._server.stdout is not None
        trial = {"arguments": line.split(), "mode": mode, "event": event, "root": str(root or self.root)}
        print(json.dumps(trial), file=self._server.stdin, flush=True)
        answer = self._server.stdout.readline()
        assert answer, "the process that runs commands has ended"
        return json.loads(answer)

    def lay_out(self, command: Command) -> None:
        """Create the files from which a command starts."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        for path in (*self.base.glob("*.toml"), *self.base.glob("*.tsv")):
            shutil.copy2(path, self.root)
        for name in command.needs:
            path = self.base / name
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, self.root / name)

    def wanted(self, command: Command) -> tuple[int, State]:
        """Return the number of write events of a command, and its outputs, without a fault."""
        if command.name not in self._wanted:
            # The first run loads and compiles modules, which would add write events.
            for mode in ("warm", "none"):
                self.lay_out(command)
                done = self.run_trial(command.line, mode)
                assert done["status"] == 0, f"{command.name}: {done}"
            assert done["events"], f"{command.name}: writes nothing"
            self._wanted[command.name] = done["events"], self.state(command)
        return self._wanted[command.name]

    def state(self, command: Command) -> State:
        """Return the checksums of a command's existing outputs, by path."""
        found = {}
        for name in command.outputs:
            path = self.root / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file() and not file.name.startswith(UNCOMPARED):
                    own = str(file.relative_to(self.root))
                    found[own] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found


@contextmanager
def workbench(directory: Path, base: Sequence[str] = BASE) -> Iterator[Workbench]:
    """Compile the injector, start the process, and create the base.

    Args:
        directory: An empty directory.
        base: The commands that create the inputs of the attacked commands.
    """
    library = directory / "injector.so"
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
        bench = Workbench(directory, server)
        bench.base.mkdir()
        write_inputs(bench.base)
        for line in base:
            done = bench.run_trial(line, "warm", root=bench.base)
            assert done["status"] == 0, f"{line}: {done}"
        yield bench
    finally:
        server.kill()
        server.communicate()


def attack(bench: Workbench, command: Command, mode: str, event: int) -> list[str]:
    """Inject a fault at an event, then run the command again; return the failures.

    Args:
        bench: The workbench.
        command: The command.
        mode: `kill`, `full` or `read-only`.
        event: Number of the write event, from 1.
    """
    _, wanted = bench.wanted(command)
    bench.lay_out(command)
    before = bench.state(command)
    done = bench.run_trial(command.line, mode, event)
    where = f"{command.name}, {mode} at event {event}"
    problems = []
    if done["hung"]:
        problems.append(f"{where}: hangs")
    if "Traceback" in done["output"]:
        problems.append(f"{where}: traceback: {done['output'][-600:]}")
    elif mode != "kill" and done["status"] not in (0, 1):
        problems.append(f"{where}: status {done['status']}: {done['output'][-300:]}")
    elif mode != "kill" and done["status"] == 1 and "regard: " not in done["output"]:
        problems.append(f"{where}: no message: {done['output'][-300:]}")
    problems += [f"{where}: {problem}" for problem in _torn(bench, command, before, wanted)]
    finished = command.once and bench.state(command) == wanted
    again = done if finished else bench.run_trial(command.line)
    if again["status"] != 0 and not finished:
        return [*problems, f"{where}: cannot be run again: {again['output'][-600:]}"]
    problems += [f"{where}, run again: {problem}" for problem in _other(bench.state(command), wanted)]
    left = [path.name for path in bench.root.rglob(".*") if path.name not in (".lock", *wanted)]
    if left:
        problems.append(f"{where}: leaves {', '.join(left)}")
    return problems


def _torn(bench: Workbench, command: Command, before: State, wanted: State) -> list[str]:
    """Return the outputs that are neither the old nor the new ones."""
    found = {name: own for name, own in bench.state(command).items() if ".partial" not in name}
    if not command.whole:
        # Checkpoints of an unfinished run are neither old nor new. Resuming shows that each file is whole.
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
    """Return the files that differ from the expected ones."""
    return [
        f"{name} differs"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]


def chosen(
    bench: Workbench, cases: int, seed: int, commands: Sequence[Command]
) -> list[tuple[Command, str, int]]:
    """Return the cases to try: all, or a sample that is spread evenly over commands and faults."""
    rng = random.Random(seed)
    by_kind = [
        [(command, mode, event) for event in range(1, bench.wanted(command)[0] + 1)]
        for command in commands
        for mode in MODES
    ]
    for kind in by_kind:
        rng.shuffle(kind)
    rng.shuffle(by_kind)
    found = []
    while any(by_kind) and (not cases or len(found) < cases):
        for kind in by_kind:
            if kind:
                found.append(kind.pop())
    return found[:cases] if cases else found


def run(cases: int, seed: int, commands: Sequence[Command] = COMMANDS) -> list[Attack]:
    """Try cases and return the table of attacks, with one row per command and fault.

    Args:
        cases: Number of cases. 0 means every fault at every write event of every command.
        seed: Seed that selects the cases.
        commands: The commands to attack.
    """
    table: dict[str, Attack] = {}
    with tempfile.TemporaryDirectory() as name, workbench(Path(name).resolve()) as bench:
        for command, mode, event in chosen(bench, cases, seed, commands):
            row = table.setdefault(f"{command.name}, {mode}", Attack(f"{command.name}, {mode}"))
            row.cases += 1
            row.failures += attack(bench, command, mode, event)
    return list(table.values())
