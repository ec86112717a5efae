"""How fast regard is where other processes want the same processors, by how OpenMP's threads wait.

    python benchmarks/shared.py [--busy 0 1 2 7] [--rounds 9] [--seconds 4] [--json FILE]
    python benchmarks/shared.py --policies spin-100 spin-1000 passive --tasks lstm --busy 2

A policy is a set of environment variables (`POLICIES`); each has a process of its own, which has prepared
everything and sleeps until its turn comes. In a round every policy does every task for some seconds, one
after the other, in another order each round, while `--busy` other processes compute without end. Told are
medians over the rounds, and their ratio to the best policy's; the last lines give each policy's worst ratio
over tasks and loads, by which `regard.processors.SPINS` was chosen. Run it on a machine that does nothing
else: the load of the machine at the start is told.

Tasks: training the quickstart's recurrent model and a small Transformer (target tokens a second), beam search
with the recurrent model (source tokens a second), and word alignment (target tokens a second).
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from regard.processors import available_processors, configure_threads

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
POLICIES: dict[str, dict[str, str] | None] = {
    "regard": None,  # what the command line chooses
    "library": {},  # what the library does by itself
    "passive": {"OMP_WAIT_POLICY": "passive"},
    **{f"spin-{count}": {"GOMP_SPINCOUNT": str(count)} for count in (100, 300, 1000, 3000, 10_000)},
    "one-thread": ONE_THREAD,
}
TASKS = ("lstm", "transformer", "search", "align")
TRANSFORMER = """
kind = "transformer"
width = 128
heads = 4
feed_forward.width = 512
encoder = { layers = 2 }
decoder = { layers = 2 }
"""
SPINNER = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""Computes without end, but not longer than the process that started it."""
PAIRS: Mapping[Literal["train", "valid", "test"], int] = {"train": 6_000, "valid": 100, "test": 100}
ALIGNED = 400
TRANSLATED = 16
WARM_UP = 4


class Worker:
    """The process of a policy."""

    def __init__(self, policy: str, folder: Path) -> None:
        """Start it, and wait until it is ready."""
        chosen = POLICIES[policy]
        taken = ("OMP_", "GOMP_", "MKL_", "KMP_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(taken)}
        if chosen is None:
            configure_threads(environment)
        else:
            environment |= chosen
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work-in", str(folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def rate(self, task: str, seconds: float) -> float:
        """Do a task for some seconds; returns tokens a second."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task} {seconds}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"shared.py: the process of a policy ended: {self.process.wait()}")
        return line

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute without end."""
    spinners = [subprocess.Popen([sys.executable, "-S", "-c", SPINNER]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def prepared(folder: Path) -> None:
    """Write and prepare the text, once for all processes."""
    from regard.cli.quickstart import CONFIG
    from regard.config import load
    from regard.data.phrasebook import write
    from regard.data.prepared import prepare
    from regard.experiment import RunConfig

    write(folder / "corpus", PAIRS, seed=1)
    path = folder / "lstm.toml"
    path.write_text(CONFIG.format(folder=folder.as_posix(), epochs=1), encoding="utf-8")
    prepare(load(RunConfig, path).data)
    head, rest = path.read_text(encoding="utf-8").split("[model]\n")
    other = f"{head}[model]{TRANSFORMER}[training]{rest.partition('[training]')[2]}"
    (folder / "transformer.toml").write_text(other, encoding="utf-8")


def training(folder: Path, name: str) -> tuple[Callable[[], int], Any]:
    """What makes one update and returns its target tokens; and the model."""
    import torch

    from regard.config import load
    from regard.data.prepared import prepare
    from regard.experiment import RunConfig
    from regard.models.registry import assemble
    from regard.training.checkpoint import TrainingState
    from regard.training.device import pick_device
    from regard.training.distributed import ALONE
    from regard.training.optimizer import build_optimizer
    from regard.training.progress import Progress
    from regard.training.schedule import build_schedule
    from regard.training.update import Updater

    pick_device("cpu")
    config: Any = load(RunConfig, folder / f"{name}.toml")
    data = prepare(config.data)
    split = data.split("train")
    torch.manual_seed(1)
    model: Any = assemble(config.model, data.text, None)
    parameters = [*model.parameters()]
    optimizer = build_optimizer(config.training.optimizer, parameters)
    state = TrainingState(model, optimizer, build_schedule(config.training.schedule), Progress())
    updater = Updater(state, split, config.training, ALONE, 1)
    order = split.batches(config.training.batch, 1, 1)

    def update() -> int:
        state.progress.update += 1
        model.train()
        return updater([order[state.progress.update % len(order)]]).tokens

    return update, model


def searching(folder: Path, model: Any) -> Callable[[], int]:
    """What translates some sentences and returns their source tokens."""
    from regard.config import load
    from regard.data.prepared import prepare
    from regard.decoding.translate import Translator, number_lines
    from regard.experiment import RunConfig

    config = load(RunConfig, folder / "lstm.toml")
    lines = (folder / "corpus" / "test.de").read_text(encoding="utf-8").splitlines()[:TRANSLATED]
    translator = Translator(model, prepare(config.data).text, config.search)

    def search() -> int:
        model.eval()
        return sum(len(result.source_tokens) for result in translator.translate(number_lines(lines)))

    return search


def aligning(folder: Path) -> Callable[[], int]:
    """What aligns some sentences and returns their target tokens."""
    from regard.alignment import Corpus, Setting
    from regard.alignment.both import train_both
    from regard.alignment.registry import DEFAULT, config_of
    from regard.data.prepared import Prepared

    corpus = Corpus.from_prepared(Prepared.open(folder / "prepared")).part(0, ALIGNED)

    def align() -> int:
        train_both(corpus, config_of(DEFAULT), Setting(seed=1))
        return len(corpus.target.tokens)

    return align


def work(folder: Path) -> None:
    """Do what standard input asks for: a task and for how long; answer with tokens a second."""
    train, model = training(folder, "lstm")
    for _ in range(WARM_UP):
        train()
    tasks = {
        "lstm": train,
        "transformer": training(folder, "transformer")[0],
        "search": searching(folder, model),
        "align": aligning(folder),
    }
    for task in tasks.values():
        task()
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        tokens, begun = 0, time.monotonic()
        while time.monotonic() - begun < float(seconds):
            tokens += tasks[name]()
        print(tokens / (time.monotonic() - begun), flush=True)


def measure(args: argparse.Namespace, folder: Path) -> dict[int, dict[str, dict[str, list[float]]]]:
    """The rates of every round, by load, task and policy."""
    workers = {policy: Worker(policy, folder) for policy in args.policies}
    found: dict[int, dict[str, dict[str, list[float]]]] = {
        count: {task: {policy: [] for policy in workers} for task in args.tasks} for count in args.busy
    }
    try:
        for number in range(args.rounds):
            shift = number % len(workers)
            order = [*args.policies[shift:], *args.policies[:shift]]
            for count in args.busy:
                with busy(count):
                    for task in args.tasks:
                        for policy in order:
                            found[count][task][policy].append(workers[policy].rate(task, args.seconds))
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.end()
    return found


def report(found: dict[int, dict[str, dict[str, list[float]]]]) -> dict[str, Any]:
    """Print the medians; returns them with each policy's worst ratio."""
    worst: dict[str, float] = {}
    medians: dict[str, Any] = {}
    for count, tasks in found.items():
        print(f"\n{count} other busy processes")
        for task, rates in tasks.items():
            middle = {policy: statistics.median(own) for policy, own in rates.items()}
            best = max(middle.values())
            cells = [f"{policy} {rate:,.0f} ({rate / best:.2f})" for policy, rate in middle.items()]
            print(f"  {task:12} " + "  ".join(cells), flush=True)
            medians.setdefault(str(count), {})[task] = middle
            for policy, rate in middle.items():
                worst[policy] = min(worst.get(policy, 1.0), rate / best)
    print("\nworst ratio to the best policy")
    for policy, ratio in sorted(worst.items(), key=lambda pair: -pair[1]):
        print(f"  {policy:12} {ratio:.2f}")
    return {"medians": medians, "worst": worst}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2], help="other busy processes")
    parser.add_argument("--policies", nargs="+", choices=[*POLICIES], default=[*POLICIES])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each policy and task in a round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work_in is not None:
        work(args.work_in)
        return
    load = os.getloadavg()
    print(f"{available_processors()} processors; load before: {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        prepared(Path(folder))
        found = measure(args, Path(folder))
    record = {"processors": available_processors(), "load": load, "rates": found, **report(found)}
    if args.json is not None:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
