"""Training or decoding throughput and peak memory of this project beside other toolkits on Multi30k.

    python benchmarks/compare.py DATA [--kind lstm|transformer|conv] [--mode train|decode] [--updates N]
                                 [--rounds R] [--systems ...] [--baseline ...]

DATA is the folder of the Multi30k files. Everything made on the way (the neutral data file, a virtual
environment a peer, trained models) goes to the cache folder, never into the checkout. The systems run in
turn, round after round (A B C A B C ...), each as a process of its own with the same number of threads, so
that what else the machine does falls on all alike; a ratio is the median over rounds of that round's figure
divided by a baseline's of the same round. A system that cannot be installed or fails is reported with its
reason, and the others go on. OpenNMT-py has all models, JoeyNMT the first two, eole is measured with
Transformers, and CTranslate2 decodes with our own trained Transformer, exported by `regard export
ctranslate2`.

A model of a kind is the same for all, with what cannot be alike said in `peers/run_*.py`:

lstm         embeddings of 500, bidirectional LSTM encoder 2 x 250 and LSTM decoder 500, of two layers,
             bilinear attention through softmax, input feeding, dropout 0.3; parameters uniform in
             (-0.1, 0.1)
transformer  width 256, 4 heads, 3 + 3 layers, feed-forward networks of 1,024 with relu, sinusoidal positions,
             biases everywhere, embeddings and output layer untied; dropout 0.1 of embeddings, of what
             sublayers find and of the hidden layer of feed-forward networks, none of attention; normalised
             before each sublayer and at the end of encoder and decoder, as OpenNMT-py and eole have it only;
             label smoothing 0.1, Adam's beta2 0.98; parameters Glorot-uniform (ours: embeddings and output
             layer normal)

conv         width 256 of embeddings and layers, 4 + 4 layers, kernels of 3 words, gated, attention in every
             layer of the decoder, normalised weights of the convolutions, embeddings and output layer untied;
             dropout 0.2. OpenNMT-py's has sinusoidal positions, nothing between contexts and states and no
             scale of contexts by the sentence's length; ours is the paper's

All are trained with Adam at 0.001, gradient's norm clipped at 5, loss a token, float32; batches of 64
sentences, the same for all, made before the clock starts. Target tokens are words and one end symbol a
sentence, without padding. Validation perplexity is without label smoothing. Decoding is a beam of 5 without
length penalty over test_2016_flickr in batches of 32 sorted by source length, at most about 1.5 times as long
as the longest source of the batch, up to and including words, with a model that each system trained itself
for `--train-updates` updates (kept in the cache).

Other work on the machine slows small parallel steps far more than large ones, and so one system more than
another: every run says how many processors it got (`cpus`) and the load before it; figures to keep want an
idle machine.

**The place of our own side.** `regard` is `benchmarks/ours.py`, run with this interpreter and with `src` and
`benchmarks` on the module path; `measure.arguments()` reads its command line, `multi30k.Multi30k` its data:

    ours.py train  --data FILE.npz [--model FOLDER] --warmup W --updates N --rate 0.001 --clip 5 [--dropout P]
                   --kind lstm|transformer|conv --threads 2 --seed 1 --precision float32|bf16
    ours.py decode --data FILE.npz --model FOLDER --beam 5 --batch 32 [--sentences N] [--output FILE]
                   --kind lstm|transformer|conv --threads 2 --seed 1 --precision float32|bf16|int8

`train` makes W + N updates on `Multi30k.train_batches(W + N)`, keeps the model in FOLDER where one is given,
and measures perplexity on `sorted_batches("valid", 64)`; `decode` translates `sorted_batches("test", batch,
sentences)` and writes the words to FILE in the order of the test set. The last line on standard output is one
JSON object (`measure.report`):

    both    system, mode, version, torch, seconds, peak_gib, cpus
    train   tokens_per_s, valid_ppl, updates, tokens, parameters
    decode  sentences_per_s, sentences, words

`seconds` and the rates are those of the N updates, or of the search over all sentences, without loading;
`peak_gib` is the process's peak resident memory at that moment and `cpus` its processor time a second
(`measure.Clocked` takes all three).
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import KINDS
from multi30k import Multi30k, prepare
from peers.environment import PEERS, PeerUnavailable, interpreter

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
OURS = {"regard": "float32", "regard-bf16": "bf16", "regard-int8": "int8"}
ENGINES = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""What decodes with our own trained model, in an interpreter of ours."""
SYSTEMS = {
    ("lstm", "train"): ["opennmt", "regard", "joeynmt"],
    ("lstm", "decode"): ["opennmt", "regard", "joeynmt"],
    ("conv", "train"): ["opennmt", "regard"],
    ("conv", "decode"): ["opennmt", "regard"],
    ("transformer", "train"): ["opennmt", "regard", "eole", "joeynmt"],
    ("transformer", "decode"): ["opennmt", "regard", "eole", "ctranslate2", "ctranslate2-int8", "joeynmt"],
}
"""What is measured unless told otherwise."""
RATE = {"train": "tokens_per_s", "decode": "sentences_per_s"}


class Failed(Exception):
    """A system could not be measured; the message says why."""


def command(system: str, cache: Path) -> list[str]:
    """The interpreter and script of a system, made ready to run."""
    if system in OURS:
        script = HERE / "ours.py"
        if not script.exists():
            raise Failed("benchmarks/ours.py is not there")
        return [sys.executable, str(script)]
    if system in ENGINES:
        return [sys.executable, str(HERE / "peers" / "run_ctranslate2.py")]
    try:
        return [str(interpreter(system, cache)), str(HERE / "peers" / f"run_{system}.py")]
    except PeerUnavailable as error:
        raise Failed(str(error)) from error


def measure(system: str, args: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """Run a system's script once and read the JSON it ends with."""
    full = [*command(system, args.cache), *words]
    full += ["--kind", args.kind, "--threads", str(args.threads), "--seed", str(args.seed)]
    own = {**OURS, **ENGINES}
    full += ["--precision", own.get(system, "float32")]
    paths = [str(HERE), str(HERE.parent / "src")] if system in own else [str(HERE)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(args.threads))
    environment = {
        **os.environ,
        **threads,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    load = round(os.getloadavg()[0], 2)
    done = subprocess.run(full, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or ["no output"]
        raise Failed(f"exit status {done.returncode}: {' / '.join(said[-3:])}")
    return {**json.loads(lines[-1]), "system": system, "load": load}


def trained(system: str, data: Path, args: argparse.Namespace) -> Path:
    """The folder of the model that a system decodes with, which it trains first if it has to."""
    base = "regard" if system in OURS or system in ENGINES else system
    name = base if args.kind == "lstm" else f"{base}-{args.kind}"
    folder = args.cache / "models" / f"{name}-{data.stem}-{args.train_updates}-{args.seed}"
    if not (folder / "finished.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{name}: training {args.train_updates} updates for decoding", flush=True)
        words = ["train", "--data", str(data), "--model", str(folder)]
        figures = measure(base, args, [*words, "--warmup", "1", "--updates", str(args.train_updates - 1)])
        (folder / "finished.json").write_text(json.dumps(figures))
    return folder


def arguments_of(system: str, data: Path, args: argparse.Namespace) -> list[str]:
    if args.mode == "train":
        return ["train", "--data", str(data), "--warmup", str(args.warmup), "--updates", str(args.updates)]
    model = trained(system, data, args)
    words = ["decode", "--data", str(data), "--model", str(model), "--output", str(model / "test.txt")]
    return words + (["--sentences", str(args.sentences)] if args.sentences else [])


def bleu(system: str, data: Path, args: argparse.Namespace) -> float:
    """BLEU of a system's last decoding on the neutral, lowercased tokens (no further tokenisation)."""
    import sacrebleu

    found = (trained(system, data, args) / "test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = [Multi30k(data).test_references[: args.sentences]]
    return sacrebleu.corpus_bleu(found, references, tokenize="none", force=True).score


def summary(runs: list[dict[str, Any]], failures: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """Medians over rounds, and ratios against the baselines round by round."""
    rate = RATE[args.mode]
    baselines = {
        name: {run["round"]: run[rate] for run in runs if run["system"] == name} for name in args.baseline
    }
    systems = {}
    for system in args.systems:
        own = [run for run in runs if run["system"] == system]
        if not own:
            continue
        figures = {
            key: statistics.median(run[key] for run in own)
            for key in (rate, "peak_gib", "cpus", "load", "valid_ppl", "bleu", "words")
            if key in own[0]
        }
        ratios = {
            name: [run[rate] / rates[run["round"]] for run in own if run["round"] in rates]
            for name, rates in baselines.items()
        }
        systems[system] = {
            **figures,
            "ratios": {name: statistics.median(found) for name, found in ratios.items() if found},
            "rounds": len(own),
            "version": own[0]["version"],
            "torch": own[0]["torch"],
        }
    return {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "settings": {
            key: getattr(args, key)
            for key in (
                "kind",
                "mode",
                "updates",
                "warmup",
                "rounds",
                "threads",
                "seed",
                "train_updates",
                "sentences",
            )
        },
        "systems": systems,
        "failures": failures,
        "runs": runs,
    }


def machine() -> str:
    """Processor, cores, memory and Python; no name of a host."""
    try:
        described = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in described if line.startswith("model name"))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, StopIteration, ValueError):
        return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def show(result: dict[str, Any], mode: str) -> None:
    """Print the summary, the ratios last."""
    settings = ", ".join(f"{key} {value}" for key, value in result["settings"].items() if value is not None)
    print(f"\n{result['machine']}; {result['date']}; {settings}")
    for system, reason in result["failures"].items():
        print(f"{system}: not measured: {reason}")
    rate = RATE[mode]
    for system, figures in result["systems"].items():
        parts = [f"{figures[rate]:8.1f} {rate.replace('_per_', '/')}", f"{figures['peak_gib']:.2f} GiB"]
        parts += [f"{name} {figures[name]:.2f}" for name in ("valid_ppl", "bleu") if name in figures]
        if "cpus" in figures:
            parts.append(f"{figures['cpus']:.1f} cpus at load {figures['load']:.1f}")
        parts += [f"{ratio:.2f} x {name}" for name, ratio in figures["ratios"].items()]
        under = "" if figures["torch"] is None else f", torch {figures['torch']}"
        print(f"{system:16s} {'  '.join(parts)}  ({figures['version']}{under})")


def main() -> int:
    """Run the comparison; 0 where every system was measured, 1 where one was not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the Multi30k files")
    parser.add_argument("--kind", choices=KINDS, default="lstm", help="the model")
    parser.add_argument("--mode", choices=list(RATE), default="train")
    parser.add_argument("--updates", type=int, default=30, help="training updates on the clock")
    parser.add_argument("--warmup", type=int, default=3, help="updates before the clock starts, at least 1")
    parser.add_argument("--rounds", type=int, default=3)
    every = [*OURS, *ENGINES, *PEERS]
    parser.add_argument("--systems", nargs="+", choices=every, help="without it those that have the model")
    parser.add_argument(
        "--baseline", nargs="+", choices=every, default=["opennmt"], help="what ratios are to"
    )
    parser.add_argument("--sentences", type=int, help="how many test sentences to decode; all without it")
    parser.add_argument("--train-updates", type=int, default=900, help="updates of the model that decodes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    default = os.environ.get("REGARD_BENCH_CACHE", "~/.cache/regard-benchmarks")
    parser.add_argument(
        "--cache", type=Path, default=Path(default), help="folder for what is made on the way"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    args.systems = args.systems or SYSTEMS[args.kind, args.mode]
    args.cache = args.cache.expanduser().resolve()
    if args.cache.is_relative_to(HERE.parent):
        parser.error(f"--cache: {args.cache} is inside the checkout; choose a folder outside it")

    data = prepare(args.data, args.cache)
    runs: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for number in range(args.rounds):
        for system in args.systems:
            if system in failures:
                continue
            try:
                figures = measure(system, args, arguments_of(system, data, args))
                if args.mode == "decode":
                    figures["bleu"] = bleu(system, data, args)
            except Failed as error:
                failures[system] = str(error)
                print(f"{system}: {error}", flush=True)
                continue
            runs.append({"round": number, **figures})
            print(json.dumps(runs[-1]), flush=True)
    result = summary(runs, failures, args)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result, args.mode)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
