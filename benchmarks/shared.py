"""Speed of regard when other processes use the same processors, by the waiting policy of OpenMP threads.

    python benchmarks/shared.py [--busy 0 1 2 7] [--rounds 9] [--seconds 4] [--json FILE]
    python benchmarks/shared.py --policies spin-100 spin-1000 passive --tasks lstm --busy 2

A policy is a set of environment variables (`POLICIES`). Each policy has its own process, which prepares
everything in advance and sleeps until its turn. In each round every policy runs every task for some
seconds, one after the other, in a different order each round, while `--busy` other processes compute
continuously. The output is the medians over the rounds and their ratio to that of the best policy. The last
lines give the worst ratio of each policy over tasks and loads, by which `cpu_threads.SPIN_COUNT` was
chosen. Run the script on an otherwise idle machine; it prints the load at the start.

Tasks: training the quickstart's recurrent model and a small Transformer (target tokens per second), beam
search with the recurrent model (source tokens per second), word alignment (target tokens per second), the
server with eight users (sentences per second) and a part of the test suite (passed tests per second).
"""

import argparse
import atexit
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from regard.config.cpu_threads import SPIN_COUNT, num_available_cpus

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
POLICIES: dict[str, dict[str, str] | None] = {
    "regard": None,  # the policy of the command line
    # The default of GNU OpenMP, stated explicitly because the server and the tests set the policy of regard
    # unless there is one in the environment.
    "library": {"GOMP_SPINCOUNT": "300000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    **{f"spin-{count}": {"GOMP_SPINCOUNT": str(count)} for count in (100, 300, 1000, 3000, 10_000)},
    "one-thread": ONE_THREAD,
}
TASKS = ("lstm", "transformer", "search", "align", "server", "tests")
CONFIG = """\
seed = 1

[data]
cache_dir = "{folder}/prepared"
train = [{{ source = "{folder}/corpus/train.de", target = "{folder}/corpus/train.en" }}]
valid = {{ source = "{folder}/corpus/valid.de", target = "{folder}/corpus/valid.en" }}
source_tokenizer = {{ kind = "words" }}
target_tokenizer = {{ kind = "words" }}

[model]
kind = "rnn"
embedding_size = 192
encoder = {{ num_layers = 1, hidden_size = 256 }}
decoder = {{ num_layers = 1, hidden_size = 256 }}
attention = {{ kind = "soft", normalizer = "softmax", score_function = "bilinear" }}
dropout = 0.1
init_range = 0.1

[training]
batch_size = 64
batch_unit = "sentences"
optimizer = {{ kind = "adam", learning_rate = 3e-3, max_grad_norm = 1.0 }}
lr_scheduler = {{ kind = "plateau", patience = 1 }}
max_epochs = {epochs}

[generation]
beam_size = 5
"""
TRANSFORMER = """
kind = "transformer"
d_model = 128
num_heads = 4
feed_forward.ffn_size = 512
encoder = { num_layers = 2 }
decoder = { num_layers = 2 }
"""
SPINNER = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""A program that computes until the process that started it ends."""
PAIRS: Mapping[Literal["train", "valid", "test"], int] = {"train": 6_000, "valid": 100, "test": 100}
ALIGNED = 400
TRANSLATED = 16
WARM_UP = 4
USERS = 8
REQUESTS = 80
TESTS = ("tests/models/test_lstm.py",)


class Worker:
    """The worker process of a policy."""

    def __init__(self, policy: str, directory: Path, tasks: Sequence[str]) -> None:
        """Start the process and wait until it is ready."""
        chosen = POLICIES[policy]
        # Thread settings of the caller would override those of the policy.
        taken = ("OMP_", "GOMP_", "MKL_", "KMP_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(taken)}
        if chosen is None:
            chosen = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "OMP_NUM_THREADS": str(num_available_cpus())}
        environment |= chosen
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work-in", str(directory), "--tasks", *tasks],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def rate(self, task: str, seconds: float) -> float:
        """Run a task for some seconds and return tokens per second."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task} {seconds}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"shared.py: a worker process ended with exit status {self.process.wait()}")
        return line

    def end(self) -> None:
        """End the process, and with it its server."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Run `count` processes that compute continuously."""
    spinners = [subprocess.Popen([sys.executable, "-S", "-c", SPINNER]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def prepared(directory: Path) -> None:
    """Write and preprocess the text once for all processes."""
    from regard.config import read_config
    from regard.data.dataset import prepare_data
    from regard.extensions.phrasebook.corpus import write_splits
    from regard.training.run import run_training
    from regard.training.run_config import RunConfig

    write_splits(directory / "corpus", PAIRS, seed=1)
    path = directory / "lstm.toml"
    path.write_text(CONFIG.format(folder=directory.as_posix(), epochs=1), encoding="utf-8")
    prepare_data(read_config(RunConfig, path).data)
    head, rest = path.read_text(encoding="utf-8").split("[model]\n")
    other = f"{head}[model]{TRANSFORMER}[training]{rest.partition('[training]')[2]}"
    (directory / "transformer.toml").write_text(other, encoding="utf-8")
    run_training(read_config(RunConfig, path, ["training.max_steps=50"]), directory / "model")


def training(directory: Path, name: str) -> tuple[Callable[[], int], Any]:
    """Return a function that makes one training step and returns its target tokens, and the model."""
    import torch

    from regard.config import read_config
    from regard.data.dataset import prepare_data
    from regard.models.registry import build_for_text
    from regard.runs.device import pick_device
    from regard.training.checkpoint import TrainingState
    from regard.training.optimizer import LRScheduler, build_optimizer
    from regard.training.progress import TrainingProgress
    from regard.training.run_config import RunConfig
    from regard.training.run_context import SINGLE_PROCESS
    from regard.training.train_step import TrainStep

    pick_device("cpu")
    config: Any = read_config(RunConfig, directory / f"{name}.toml")
    data = prepare_data(config.data)
    split = data.split("train")
    torch.manual_seed(1)
    model: Any = build_for_text(config.model, data.text, None)
    parameters = [*model.parameters()]
    optimizer = build_optimizer(config.training.optimizer, parameters)
    state = TrainingState(model, optimizer, LRScheduler(config.training.lr_scheduler), TrainingProgress())
    train_step = TrainStep(state, split, config.training, SINGLE_PROCESS, 1)
    order = split.batches(config.training, 1, 1)

    def update() -> int:
        state.progress.step += 1
        model.train()
        return train_step([order[state.progress.step % len(order)]]).tokens

    return update, model


def searching(directory: Path, model: Any) -> Callable[[], int]:
    """Return a function that translates some sentences and returns the number of source tokens."""
    from regard.config import read_config
    from regard.data.dataset import prepare_data
    from regard.generation.lines import enumerate_lines
    from regard.generation.neural_translator import NeuralTranslator
    from regard.training.run_config import RunConfig

    config = read_config(RunConfig, directory / "lstm.toml")
    lines = (directory / "corpus" / "test.de").read_text(encoding="utf-8").splitlines()[:TRANSLATED]
    translator = NeuralTranslator(model, prepare_data(config.data).text, config.generation)

    def search() -> int:
        model.eval()
        return sum(len(result.source_tokens) for result in translator.translate(enumerate_lines(lines)))

    return search


def aligning(directory: Path) -> Callable[[], int]:
    """Return a function that aligns some sentences and returns the number of target tokens."""
    from regard.alignment import TrainingSetup
    from regard.alignment.base import DEFAULT_ALIGNER, default_config
    from regard.alignment.word_aligner import train_both
    from regard.data.dataset import PreparedData

    corpus = PreparedData.open(directory / "prepared").alignment_corpus().subset(0, ALIGNED)

    def align() -> int:
        train_both(corpus, default_config(DEFAULT_ALIGNER), TrainingSetup(seed=1))
        return len(corpus.target.tokens)

    return align


def serving(directory: Path) -> Callable[[], int]:
    """Start a server in this policy; return a function that sends it requests and returns their number."""
    import httpx

    command = [sys.executable, "-m", "regard", "serve", str(directory / "model"), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    assert server.stderr is not None
    address = server.stderr.readline().split()[-1]
    lines = (directory / "corpus" / "test.de").read_text(encoding="utf-8").splitlines()
    client = httpx.Client(base_url=address, timeout=60, limits=httpx.Limits(max_connections=USERS))

    def translate(number: int) -> None:
        answer = client.post("/translate", json={"text": lines[number % len(lines)], "num_return": 5})
        answer.raise_for_status()

    def serve() -> int:
        with ThreadPoolExecutor(USERS) as users:
            list(users.map(translate, range(REQUESTS)))
        return REQUESTS

    return serve


def testing() -> int:
    """Run a part of the test suite in a process of its own and return the number of passed tests."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode or passed is None:
        raise SystemExit(f"shared.py: the tests failed:\n{done.stdout[-2000:]}")
    return int(passed[1])


def work(directory: Path, names: Sequence[str]) -> None:
    """Read a task and its seconds from each line of standard input; print tokens per second."""
    train, model = training(directory, "lstm")
    for _ in range(WARM_UP):
        train()
    made: dict[str, Callable[[], Callable[[], int]]] = {
        "lstm": lambda: train,
        "transformer": lambda: training(directory, "transformer")[0],
        "search": lambda: searching(directory, model),
        "align": lambda: aligning(directory),
        "server": lambda: serving(directory),
        "tests": lambda: testing,
    }
    tasks = {name: made[name]() for name in names}
    for task in tasks.values():
        task()
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        tokens, begun = 0, time.monotonic()
        while time.monotonic() - begun < float(seconds):
            tokens += tasks[name]()
        print(tokens / (time.monotonic() - begun), flush=True)


def measure(args: argparse.Namespace, directory: Path) -> dict[int, dict[str, dict[str, list[float]]]]:
    """Return tokens per second of every round, by load, task and policy."""
    workers = {policy: Worker(policy, directory, args.tasks) for policy in args.policies}
    found: dict[int, dict[str, dict[str, list[float]]]] = {
        count: {task: {policy: [] for policy in workers} for task in args.tasks} for count in args.busy
    }
    try:
        for number in range(args.rounds):
            # The order rotates, so that no policy always runs first.
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
    """Print the medians and return them with the worst ratio of each policy."""
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
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per policy, task and round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work_in is not None:
        work(args.work_in, args.tasks)
        return
    load = os.getloadavg()
    print(f"{num_available_cpus()} processors; load before: {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}")
    with tempfile.TemporaryDirectory() as directory:
        prepared(Path(directory))
        found = measure(args, Path(directory))
    record = {"processors": num_available_cpus(), "load": load, "rates": found, **report(found)}
    if args.json is not None:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
