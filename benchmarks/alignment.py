"""Word aligners on real text: time, memory and alignment error rate, compared with fast_align and eflomal.

    python benchmarks/alignment.py DATA --text hansards --systems ibm2 hmm fast_align eflomal

DATA contains `multi30k` and `hansards`. Each system aligns both directions in separate processes; the
systems alternate for `--rounds` rounds. The time is measured from the start of the process, including the
start of Python, until the links are written. Our aligners compile their kernels on a few lines first. The
text hansards is `train-150k` and `gold-test` together, and AER is computed on the latter. For all systems,
the two directions are symmetrized here with the same code.

eflomal is installed from its package index into a directory of `--cache`; fast_align is cloned and compiled
there (both need a C compiler). `--fast-align` is the path of an existing program. The script reports a
system that cannot be installed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard.alignment import Corpus, symmetrize
from regard.metrics.alignment import alignment_score
from regard.text.corpus import read_lines
from regard.text.links import parse_links, read_gold_links

TEXTS = {
    "multi30k": ("de", "en", ("train.{}.gz",), None),
    "hansards": ("en", "fr", ("train-150k.{}.gz", "gold-test.{}"), "gold-test.talp"),
}
OURS = ("ibm1", "ibm2", "ibm3", "ibm4", "hmm", "bayes")
PEERS = ("fast_align", "eflomal")
FAST_ALIGN = "https://github.com/clab/fast_align"


class UnavailableError(Exception):
    """A system could not be installed; the message contains the reason."""


# A process inherits the peak memory of its parent, so a small process is started in between.
BETWEEN = """
import os, sys
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
sys.stderr.write(f"\\npeak {usage.ru_maxrss}\\n")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measured(command: list[str], output: Path | None = None) -> tuple[float, float]:
    """Run a command with its output in a file; return the seconds and the peak memory in MiB."""
    command = [sys.executable, "-S", "-c", BETWEEN, *command]
    with open(output or os.devnull, "wb") as file:
        start = time.perf_counter()
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False)
        seconds = time.perf_counter() - start
    message, _, peak = done.stderr.decode(errors="replace").rpartition("\npeak ")
    if done.returncode:
        raise UnavailableError(f"{command[4]}: {message.strip()[-300:]}")
    return seconds, int(peak) / 1024


def built(command: list[str], **options: Any) -> None:
    """Run one command of the installation of a system; raise `UnavailableError` if it fails."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, **options)
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise UnavailableError(f"{' '.join(command[:4])}: {message.strip()[-200:]}") from None


def fast_align(cache: Path, given: Path | None) -> Path:
    """Return the path of fast_align, which is cloned and compiled if necessary."""
    found = given or shutil.which("fast_align")
    if found:
        return Path(found)
    directory = cache / "fast_align"
    program = directory / "fast_align"
    if not program.exists():
        shutil.rmtree(directory, ignore_errors=True)
        built(["git", "clone", "--depth", "1", FAST_ALIGN, str(directory)], timeout=120)
        sources = ["src/fast_align.cc", "src/ttables.cc"]
        built(["g++", "-O3", "-std=c++11", "-fopenmp", "-I.", *sources, "-o", "fast_align"], cwd=directory)
    return program


def eflomal(cache: Path) -> Path:
    """Return the path of eflomal-align in its own virtual environment, which is created if necessary."""
    directory = cache / "eflomal"
    command = directory / "bin" / "eflomal-align"
    if not command.exists():
        shutil.rmtree(directory, ignore_errors=True)
        built([sys.executable, "-m", "venv", str(directory)])
        built([str(directory / "bin" / "pip"), "install", "--quiet", "eflomal==2.0.0"])
    return command


class Runner:
    """Runs the systems on a text in both directions."""

    def __init__(self, args: argparse.Namespace, directory: Path) -> None:
        """Write the text in the formats of the systems."""
        source, target, names, gold = TEXTS[args.text]
        self.args, self.directory = args, directory
        self.gold = None if gold is None else list(read_gold_links(args.data / args.text / gold))
        sides = [
            [line for name in names for line in read_lines(args.data / args.text / name.format(side))]
            for side in (source, target)
        ]
        self.corpus = Corpus.from_tokens((a.split(), b.split()) for a, b in zip(*sides, strict=True))
        self.source, self.target, self.joined = (directory / name for name in ("source", "target", "joined"))
        self.source.write_text("\n".join(sides[0]) + "\n", encoding="utf-8")
        self.target.write_text("\n".join(sides[1]) + "\n", encoding="utf-8")
        lines = (f"{a} ||| {b}\n" for a, b in zip(*sides, strict=True))
        self.joined.write_text("".join(lines), encoding="utf-8")

    def run(self, system: str, seed: int) -> dict[str, Any]:
        """Return the times (forward, backward, or both together), the peak memory and the AER of a system."""
        outputs = {name: self.directory / f"{system}.{name}" for name in ("forward", "backward")}
        ways: dict[str, Callable[[dict[str, Path], int], list[tuple[float, float]]]]
        ways = {"fast_align": self.fast_align, "eflomal": self.eflomal}
        found = ways[system](outputs, seed) if system in ways else self.ours(system, outputs, seed)
        seconds, memory = zip(*found, strict=True)
        figures = {"system": system, "seconds": list(seconds), "total": sum(seconds), "mib": max(memory)}
        return figures | self.errors(outputs)

    def ours(self, model: str, outputs: dict[str, Path], seed: int) -> list[tuple[float, float]]:
        """Run `regard align`, once per direction."""
        found = []
        for name, output in outputs.items():
            command = [sys.executable, "-m", "regard", "align", str(self.source), str(self.target)]
            command += ["--model", model, "--symmetrize", name, "-o", str(output), "--seed", str(seed)]
            found.append(measured([*command, "--num-threads", str(self.args.threads)]))
        return found

    def fast_align(self, outputs: dict[str, Path], seed: int) -> list[tuple[float, float]]:
        """Run `fast_align -d -o -v`, once per direction."""
        program = str(fast_align(self.args.cache, self.args.fast_align))
        os.environ["OMP_NUM_THREADS"] = str(self.args.threads)
        return [
            measured([program, "-i", str(self.joined), "-d", "-o", "-v", *reverse], outputs[name])
            for name, reverse in (("forward", []), ("backward", ["-r"]))
        ]

    def eflomal(self, outputs: dict[str, Path], seed: int) -> list[tuple[float, float]]:
        """Run eflomal with its defaults (model 3), both directions in one call."""
        command = [str(eflomal(self.args.cache)), "-i", str(self.joined), "--overwrite"]
        return [measured([*command, "-f", str(outputs["forward"]), "-r", str(outputs["backward"])])]

    def errors(self, outputs: dict[str, Path]) -> dict[str, float]:
        """Return the AER of the symmetrized links in percent; empty for a text without gold links."""
        if self.gold is None:
            return {}
        forward = heads(outputs["forward"], self.corpus.target.offsets, by=1)
        backward = heads(outputs["backward"], self.corpus.source.offsets, by=0)
        aer = {}
        for method in ("grow-diag-final-and", "intersection"):
            links = list(symmetrize(self.corpus, forward, backward, method))
            aer[method] = 100 * alignment_score(links[-len(self.gold) :], self.gold).aer
        return aer


def heads(path: Path, offsets: np.ndarray, by: int) -> np.ndarray:
    """Return the position linked to each word of side `by`, -1 for none, as one array for the text."""
    found = np.full(int(offsets[-1]), -1, dtype=np.int32)
    with open(path, encoding="utf-8") as lines:
        for first, line in zip(offsets, lines, strict=False):
            for link in parse_links(line):
                found[first + link[by]] = link[1 - by]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--text", choices=tuple(TEXTS), default="multi30k")
    parser.add_argument("--systems", nargs="+", choices=(*OURS, *PEERS), default=["ibm2", "hmm", *PEERS])
    parser.add_argument("--rounds", type=int, default=1, help="number of rounds; each has its own seed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fast-align", type=Path, help="path of an existing fast_align program")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "alignment-peers")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        runner = Runner(args, Path(temporary))
        for number in range(args.rounds):
            for system in args.systems:
                if system in failures:
                    continue
                try:
                    if number == 0 and system in OURS:
                        warm_up(system, Path(temporary))
                    runs.append({"round": number + 1, **runner.run(system, seed=number)})
                    print(json.dumps(runs[-1]), flush=True)
                except UnavailableError as error:
                    failures[system] = str(error)
                    print(f"{system}: not measured: {error}", flush=True)
    if args.json:
        args.json.write_text(
            json.dumps({"runs": runs, "failures": failures}, indent=1) + "\n", encoding="utf-8"
        )
    show(runs)
    return 1 if failures else 0


def warm_up(model: str, directory: Path) -> None:
    """Compile the kernels on a few lines, so that the measured process loads them from the cache."""
    lines = directory / "few.tsv"
    lines.write_text("a b c\tx y z\nb c\ty z\n" * 20, encoding="utf-8")
    measured([sys.executable, "-m", "regard", "align", str(lines), "--model", model])


def show(runs: list[dict[str, Any]]) -> None:
    """Print one line per system with the median time, the maximum memory and the mean AER."""
    print(f"{'system':>12} {'s':>8} {'MiB':>6}  AER gdfa  intersection")
    for system in dict.fromkeys(run["system"] for run in runs):
        own = [run for run in runs if run["system"] == system]
        seconds = statistics.median(run["total"] for run in own)
        memory = max(run["mib"] for run in own)
        aer = [
            f"{statistics.mean(run[method] for run in own):.2f}" if method in own[0] else "-"
            for method in ("grow-diag-final-and", "intersection")
        ]
        print(f"{system:>12} {seconds:8.1f} {memory:6.0f}  {aer[0]:>8}  {aer[1]:>12}")


if __name__ == "__main__":
    sys.exit(main())
