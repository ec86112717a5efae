"""The stages of `gpu.sh`: agreement of GPU and CPU, throughput, and the complete Multi30k recipe.

python benchmarks/gpu.py exactness|throughput|recipe [--data DIRECTORY] [--device cuda] --json FILE
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from multi30k import Multi30k, prepare
from ours import SEARCH, batch, make_train_step, model_of, transformer

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.config import read_config
from regard.data.batch import collate
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.metrics.translation import count_statistics
from regard.models import build_model
from regard.models.base import Precision
from regard.models.rnn.config import RnnConfig
from regard.runs.loading import load_model
from regard.text.corpus import read_lines
from regard.text.vocabulary import EOS
from regard.training.config import TrainingConfig
from regard.training.optimizer import ConstantConfig
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig
from regard.training.run_context import init_process_group

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "multi30k-lstm.toml"


LIMITS = {torch.float64: 1e-9, torch.float32: 1e-3}
SCORE_LIMIT = 1e-5  # search adds the scores in float32


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def exactness(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Compare losses, gradients and translations with those on the CPU."""
    torch.manual_seed(0)
    words = [[[int(i) for i in torch.randint(5, 200, (n,))] for n in (17, 9, 12, 1, 30)] for _ in range(2)]
    # The fertility of each word is 2, and that of the last one, like a sink's, is unbounded.
    upper = [np.array([2.0] * (len(one) - 1) + [np.inf], dtype=np.float32) for one in words[0]]
    data = collate(words[0], [[*target, EOS] for target in words[1]], list(range(5)), upper)
    found: dict[str, Any] = {"limits": {str(dtype)[6:]: limit for dtype, limit in LIMITS.items()}}
    within = True
    for name, config in {
        "lstm": RnnConfig(dropout=0.0),
        "lstm, constrained sparsemax": RnnConfig(dropout=0.0, attention=ConstrainedAttentionConfig()),
        "lstm, posterior": RnnConfig(dropout=0.0, attention=PosteriorAttentionConfig()),
        "transformer": transformer(0.0),
        "transformer, constrained softmax": replace(
            transformer(0.0), attention=ConstrainedAttentionConfig(normalizer="softmax")
        ),
    }.items():
        for dtype, limit in LIMITS.items():
            results = []
            for place in (torch.device("cpu"), device):
                torch.manual_seed(1)
                model = build_model(config, 200, 200).to(dtype).to(place)
                outcome = model(data.to(place), mean_log_probs=True)
                means = outcome.mean_log_probs[outcome.log_weights.isfinite()]
                (-outcome.log_likelihood.sum() - 0.1 * means.sum()).backward()
                gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
                bounds = None if data.upper_bounds is None else data.upper_bounds.to(place)
                searched = beam_search(
                    model, data.source.to(place), GenerationConfig(num_return=2), upper=bounds
                )
                results.append((outcome.log_likelihood.detach().cpu(), gradients, searched))
            (cpu_likelihoods, cpu_gradients, cpu_hypotheses), (likelihoods, gradients, hypotheses) = results
            scale = max(float(g.abs().max()) for g in cpu_gradients)
            found[f"{name} {str(dtype)[6:]}"] = deviations = {
                "log-likelihood": float((cpu_likelihoods - likelihoods).abs().max()),
                "gradient, relative": max(
                    float((a - b).abs().max()) for a, b in zip(cpu_gradients, gradients, strict=True)
                )
                / scale,
                "translations equal": [[h.tokens for h in s] for s in cpu_hypotheses]
                == [[h.tokens for h in s] for s in hypotheses],
                "scores": max(
                    abs(a.score - b.score)
                    for s, t in zip(cpu_hypotheses, hypotheses, strict=True)
                    for a, b in zip(s, t, strict=True)
                ),
            }
            exact = deviations["log-likelihood"], deviations["gradient, relative"]
            within &= max(exact) <= limit and deviations["scores"] <= SCORE_LIMIT
            within &= bool(deviations["translations equal"])
    return {**found, "passed": within}


def timed(call: Callable[[int], int], device: torch.device, count: int) -> float:
    """Return units per second of `call(i)`, which returns its number of units, after three warm-up calls."""
    for i in range(3):
        call(i)
    wait(device)
    start, done = time.perf_counter(), 0
    for i in range(3, 3 + count):
        done += call(i)
    wait(device)
    return done / (time.perf_counter() - start)


def throughput(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Measure training and beam search with the recurrent model and the Transformer of compare.py."""
    with tempfile.TemporaryDirectory() as cache:
        data = Multi30k(prepare(args.data, args.cache or Path(cache)))
    found: dict[str, Any] = {}
    count = 60 if device.type == "cuda" else 3
    made = [batch(raw_batch).to(device) for raw_batch in data.train_batches(3 + count)]
    searched = [batch(raw_batch, with_target=False) for raw_batch in data.sorted_batches("test", 256)]
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    for kind, precision in itertools.product(("lstm", "transformer"), precisions):
        torch.manual_seed(1)
        model = model_of(kind, data, 0.3).to(device).train()
        settings = TrainingConfig(lr_scheduler=ConstantConfig(), precision=precision)
        with init_process_group(device) as processes:
            step = make_train_step(model, made, settings, processes, 1)

            def one(i: int, step: Any = step) -> int:
                step([np.array([i])])
                return made[i].target_tokens

            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            rate = timed(one, device, count)
        peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
        model.to(getattr(torch, precision)).eval()
        start = time.perf_counter()
        chosen = searched if device.type == "cuda" else searched[:1]
        sentences = sum(len(beam_search(model, one.source.to(device), SEARCH)) for one in chosen)
        wait(device)
        found[f"{kind}, {precision}"] = {
            "target tokens per second": round(rate),
            "peak GiB": peak,
            "sentences per second, beam 5, batches of 256": round(
                sentences / (time.perf_counter() - start), 1
            ),
        }
    return found


def recipe(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Train the Multi30k recipe for at most 3.5 minutes, then translate and score the test set."""
    where = args.data.absolute().as_posix()

    def corpus(name: str) -> str:
        return f'{{source="{where}/{name}.de.gz", target="{where}/{name}.en.gz"}}'

    with tempfile.TemporaryDirectory() as directory:
        config = read_config(
            RunConfig,
            RECIPE,
            [
                f"data.train=[{corpus('train')}]",
                f"data.valid={corpus('val')}",
                f'data.cache_dir="{directory}/prepared"',
                f'device="{device}"',
                "training.max_minutes=3.5",
                *([] if device.type == "cuda" else ["training.max_steps=3"]),
            ],
        )
        start = time.perf_counter()
        result = train(config, Path(directory) / "model")
        spent = time.perf_counter() - start
        loaded = load_model(Path(directory) / "model", str(device))
        translator = NeuralTranslator(loaded.model, loaded.text, config.generation)
        outputs = [
            r.text
            for r in translator.translate(enumerate_lines(read_lines(args.data / "test_2016_flickr.de.gz")))
        ]
    references = list(read_lines(args.data / "test_2016_flickr.en.gz"))
    score = count_statistics("bleu", outputs, [references])
    return {
        "BLEU": round(score.corpus_score(), 2),
        "signature": score.signature,
        "validation perplexity": result.progress.best_score,
        "updates": result.progress.step,
        "epochs": result.progress.epoch - 1,
        "training seconds": round(spent, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=["exactness", "throughput", "recipe"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, help="directory of the prepared text, for other scripts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    figures = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        args.stage: {"exactness": exactness, "throughput": throughput, "recipe": recipe}[args.stage](
            args, device
        ),
    }
    text = json.dumps(figures, indent=2)
    args.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    if not figures[args.stage].get("passed", True):
        raise SystemExit("deviations above the limits")


if __name__ == "__main__":
    main()
