"""Training or decoding throughput and peak memory of this project and of other toolkits on Multi30k.

    python benchmarks/compare.py DATA [--kind lstm|transformer|conv] [--mode train|decode] [--updates N]
                                 [--rounds R] [--systems ...] [--baseline ...]

DATA is the directory of the Multi30k files. All intermediate files (the neutral data file, a virtual
environment per toolkit, trained models) are written to the cache directory, never into the checkout. The
systems alternate, round after round (A B C A B C ...), each as a separate process with the same number of
threads, so that other work on the machine affects all of them alike. A ratio is the median over the rounds
of the figure divided by that of the baseline in the same round. If a system cannot be installed or fails,
the reason is reported and the others continue. OpenNMT-py has all models and JoeyNMT the first two; eole is
measured with Transformers, and CTranslate2 decodes with our own trained Transformer, exported by `regard
export`.

The model of each kind is the same for all systems; unavoidable differences are listed in `peers/run_*.py`:

lstm         embeddings of 500, bidirectional LSTM encoder of 2 x 250 and LSTM decoder of 500, two layers
             each, bilinear softmax attention, input feeding, dropout 0.3; parameters uniform in (-0.1, 0.1)
transformer  256 dimensions, 4 heads, 3 + 3 layers, feed-forward layers of 1,024 with relu, sinusoidal
             position encoding, biases in all layers, embeddings and output layer not tied; dropout 0.1 on
             embeddings, on the output of sublayers and on the hidden layer of feed-forward layers, none on
             attention; pre-norm with a final normalization in encoder and decoder, because OpenNMT-py and
             eole support only that; label smoothing 0.1, Adam's beta2 0.98; Glorot-uniform initialization
             (ours: normal for embeddings and output layer)
conv         256 dimensions of embeddings and layers, 4 + 4 layers, kernel size 3, gated linear units,
             attention in every decoder layer, weight normalization of the convolutions, embeddings and
             output layer not tied; dropout 0.2. OpenNMT-py has sinusoidal position encoding, no linear
             layers between contexts and states, and does not scale contexts by the length of the sentence;
             ours follows the paper

All models are trained in float32 with Adam at 0.001, the gradient norm clipped at 5 and the loss averaged
over tokens, on the same batches of 64 sentences for all, which are created before the measurement. Target
tokens are words and one end-of-sentence token per sentence, without padding. Validation perplexity is
without label smoothing. Decoding is beam search with beam 5 and no length penalty on test_2016_flickr, in
batches of 32 sorted by source length, with a maximum length of about 1.5 times the longest source of the
batch. The measured time includes the conversion to words. Each system uses its own model, trained for
`--train-updates` steps and kept in the cache.

Other work on the machine slows small parallel steps far more than large ones, and therefore some systems
more than others. Every run reports the number of processors that it used (`cpus`) and the load before it;
use an idle machine for figures to publish.

**Interface of our own system.** `regard` is `benchmarks/ours.py`, run with this interpreter and with `src`
and `benchmarks` on the module path. `measure.arguments()` reads its command line, `multi30k.Multi30k` its
data:

    ours.py train  --data FILE.npz [--model DIR] --warmup W --updates N --rate 0.001 --clip 5 [--dropout P]
                   --kind lstm|transformer|conv --threads 2 --seed 1 --precision float32|bf16
    ours.py decode --data FILE.npz --model DIR --beam 5 --batch 32 [--sentences N] [--output FILE]
                   --kind lstm|transformer|conv --threads 2 --seed 1 --precision float32|bf16

`train` makes W + N steps on `Multi30k.train_batches(W + N)`, saves the model in DIR if given, and
computes the perplexity on `sorted_batches("valid", 64)`. `decode` translates `sorted_batches("test", batch,
sentences)` and writes the words to FILE in the order of the test set. The last line on standard output is
one JSON object (`measure.report`):

    both    system, mode, version, torch, seconds, peak_gib, cpus
    train   tokens_per_s, valid_ppl, updates, tokens, parameters
    decode  sentences_per_s, sentences, words

`seconds` and the rates are for the N steps, or for the search over all sentences, without loading.
`peak_gib` is the peak resident memory of the process at that time, and `cpus` its processor time per second
of wall-clock time (`measure.Clocked` measures all three).
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
from peers.environment import PEERS, PeerUnavailableError, interpreter

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
OURS = {"regard": "float32", "regard-bf16": "bf16"}
ENGINES = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""Systems that decode with our trained model in this interpreter, with their precision."""
SYSTEMS = {
    ("lstm", "train"): ["opennmt", "regard", "joeynmt"],
    ("lstm", "decode"): ["opennmt", "regard", "joeynmt"],
    ("conv", "train"): ["opennmt", "regard"],
    ("conv", "decode"): ["opennmt", "regard"],
    ("transformer", "train"): ["opennmt", "regard", "eole", "joeynmt"],
    ("transformer", "decode"): ["opennmt", "regard", "eole", "ctranslate2", "ctranslate2-int8", "joeynmt"],
}
"""The default of --systems for each model and mode."""
RATE = {"train": "tokens_per_s", "decode": "sentences_per_s"}


class RunFailedError(Exception):
    """A system could not be measured; the message contains the reason."""


def command(system: str, cache: Path) -> list[str]:
    """Return the interpreter and the script of a system, after installing it if necessary."""
    if system in OURS:
        script = HERE / "ours.py"
        if not script.exists():
            raise RunFailedError("benchmarks/ours.py is missing")
        return [sys.executable, str(script)]
    if system in ENGINES:
        return [sys.executable, str(HERE / "peers" / "run_ctranslate2.py")]
    try:
        return [str(interpreter(system, cache)), str(HERE / "peers" / f"run_{system}.py")]
    except PeerUnavailableError as error:
        raise RunFailedError(str(error)) from error


def measure(system: str, args: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """Run the script of a system once and return the JSON object of its last line."""
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
    # The load is read before the run, because the run itself increases it.
    load = round(os.getloadavg()[0], 2)
    done = subprocess.run(full, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        errors = done.stderr.strip().splitlines() or ["no output"]
        raise RunFailedError(f"exit status {done.returncode}: {' / '.join(errors[-3:])}")
    return {**json.loads(lines[-1]), "system": system, "load": load}


def trained(system: str, data: Path, args: argparse.Namespace) -> Path:
    """Return the directory of the model with which a system decodes, after training it if necessary."""
    base = "regard" if system in OURS or system in ENGINES else system
    name = base if args.kind == "lstm" else f"{base}-{args.kind}"
    directory = args.cache / "models" / f"{name}-{data.stem}-{args.train_updates}-{args.seed}"
    if not (directory / "finished.json").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        print(f"{name}: training for {args.train_updates} steps before decoding", flush=True)
        words = ["train", "--data", str(data), "--model", str(directory)]
        figures = measure(base, args, [*words, "--warmup", "1", "--updates", str(args.train_updates - 1)])
        (directory / "finished.json").write_text(json.dumps(figures))
    return directory


def arguments_of(system: str, data: Path, args: argparse.Namespace) -> list[str]:
    if args.mode == "train":
        return ["train", "--data", str(data), "--warmup", str(args.warmup), "--updates", str(args.updates)]
    model = trained(system, data, args)
    words = ["decode", "--data", str(data), "--model", str(model), "--output", str(model / "test.txt")]
    return words + (["--sentences", str(args.sentences)] if args.sentences else [])


def bleu(system: str, data: Path, args: argparse.Namespace) -> float:
    """Return BLEU of the last decoding of a system on the lowercased tokens, without further tokenization."""
    import sacrebleu

    found = (trained(system, data, args) / "test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = [Multi30k(data).test_references[: args.sentences]]
    return sacrebleu.corpus_bleu(found, references, tokenize="none", force=True).score


def summary(runs: list[dict[str, Any]], failures: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """Return medians over the rounds, and medians of the per-round ratios to the baselines."""
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
    """Return a description of processor, cores, memory and Python version, without the host name."""
    try:
        described = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in described if line.startswith("model name"))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, StopIteration, ValueError):
        return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def show(result: dict[str, Any], mode: str) -> None:
    """Print the summary, with the ratios at the end of each line."""
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
    """Run the comparison; return 0 if every system was measured, otherwise 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="directory of the Multi30k files")
    parser.add_argument("--kind", choices=KINDS, default="lstm", help="model architecture")
    parser.add_argument("--mode", choices=list(RATE), default="train")
    parser.add_argument("--updates", type=int, default=30, help="number of measured training steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measurement, at least 1")
    parser.add_argument("--rounds", type=int, default=3)
    every = [*OURS, *ENGINES, *PEERS]
    parser.add_argument("--systems", nargs="+", choices=every, help="default: all that support the model")
    parser.add_argument(
        "--baseline", nargs="+", choices=every, default=["opennmt"], help="systems to compute ratios to"
    )
    parser.add_argument("--sentences", type=int, help="number of test sentences; default: all")
    parser.add_argument("--train-updates", type=int, default=900, help="training steps of the decoding model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    default = os.environ.get("REGARD_BENCH_CACHE", "~/.cache/regard-benchmarks")
    parser.add_argument("--cache", type=Path, default=Path(default), help="directory of intermediate files")
    parser.add_argument("--json", type=Path, help="output file of the figures")
    args = parser.parse_args()
    args.systems = args.systems or SYSTEMS[args.kind, args.mode]
    args.cache = args.cache.expanduser().resolve()
    if args.cache.is_relative_to(HERE.parent):
        parser.error(f"--cache: {args.cache} is inside the checkout; choose a directory outside it")

    data = prepare(args.data, args.cache)
    runs: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for number in range(args.rounds):
        for system in args.systems:
            # A system that failed once is not tried again in later rounds.
            if system in failures:
                continue
            try:
                figures = measure(system, args, arguments_of(system, data, args))
                if args.mode == "decode":
                    figures["bleu"] = bleu(system, data, args)
            except RunFailedError as error:
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
