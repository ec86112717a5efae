"""Cost of attention mechanisms relative to softmax attention: training, beam search, memory.

    python benchmarks/mechanisms.py --data FILE [--only posterior posterior-linear] [--rounds 9] [--json FILE]
    python benchmarks/mechanisms.py --data FILE --kind transformer
    python benchmarks/mechanisms.py --data FILE --memory      peak memory, each mechanism in a new process
    python benchmarks/mechanisms.py --data FILE --device cuda

FILE is the output of `multi30k.prepare` (`compare.py` leaves it in its cache). The same recurrent model is
trained with each mechanism in turn, a few steps each per round, on the same batches. Then the mechanisms
alternate in beam search. Constrained attention has one additional source token, the sink. Ratios are
medians over the rounds.

With `--kind transformer`, the Transformer of `compare.py` has the mechanism in every decoder layer. The
baseline of the ratios is softmax that computes all attention weights, as every other mechanism must;
`softmax-fused` is softmax with PyTorch's fused operator, which does not return weights. Self-attention is
fused for all mechanisms. Fertilities are per head, or (`-shared`) shared by the heads of a layer.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import KINDS, TRANSFORMER
from multi30k import Batch as TokenBatch
from multi30k import Multi30k
from ours import make_train_step, ours, sizes, transformer
from torch import nn

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, collate
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.kernels.matmul import limit_kernel_caches
from regard.models.base import ForwardOutput, OutputAttentions, Precision, TranslationModel
from regard.models.rnn.config import RnnConfig, RnnDecoderConfig
from regard.models.rnn.model import RnnModel
from regard.models.transformer.model import TransformerModel
from regard.text.vocabulary import EOS, SINK
from regard.training.config import TrainingConfig
from regard.training.optimizer import AdamConfig, ConstantConfig
from regard.training.run_context import ProcessGroup

LINEAR = RnnDecoderConfig(output_layer="linear")
MECHANISMS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "constrained-softmax": {"attention": ConstrainedAttentionConfig(normalizer="softmax", exhaustion=0.2)},
    "constrained-sparsemax": {
        "attention": ConstrainedAttentionConfig(normalizer="sparsemax", exhaustion=0.2)
    },
    "prior": {"attention": PosteriorAttentionConfig(state_attention="prior", tail="drop")},
    "posterior": {"attention": PosteriorAttentionConfig(tail="drop")},
    "posterior-mean": {"attention": PosteriorAttentionConfig()},
    "monotonic": {"attention": PosteriorAttentionConfig(coupling="monotonic", tail="drop")},
    "posterior-linear": {"attention": PosteriorAttentionConfig(tail="drop"), "decoder": LINEAR},
    "posterior-linear-mean": {"attention": PosteriorAttentionConfig(), "decoder": LINEAR},
    "posterior-linear-all": {"attention": PosteriorAttentionConfig(top_k=0), "decoder": LINEAR},
    "monotonic-linear": {
        "attention": PosteriorAttentionConfig(coupling="monotonic", tail="drop"),
        "decoder": LINEAR,
    },
}
SHARED = ConstrainedAttentionConfig(normalizer="sparsemax", exhaustion=0.2, fertility_sharing="per_layer")
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax-fused": {},
    "sparsemax": {"attention": SoftAttentionConfig(normalizer="sparsemax")},
    "constrained-softmax": MECHANISMS["constrained-softmax"],
    "constrained-sparsemax": MECHANISMS["constrained-sparsemax"],
    "constrained-sparsemax-shared": {"attention": SHARED},
}


def batch(tokens: TokenBatch, bounded: bool, with_target: bool = True) -> Batch:
    """Return a batch of the comparison, with fertilities of 2 and a sink if attention is constrained."""
    targets = [[*ours(sentence), EOS] for sentence in tokens.target] if with_target else None
    sources = [ours(sentence) for sentence in tokens.source]
    if not bounded:
        return collate(sources, targets, tokens.indices)
    upper = [np.array([2.0] * len(one) + [np.inf], dtype=np.float32) for one in sources]
    return collate([[*one, SINK] for one in sources], targets, tokens.indices, upper)


def timed(step: Callable[[], object], device: torch.device) -> float:
    begin = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def report(title: str, runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Print and return the median seconds and the median ratio to softmax of each mechanism."""
    found = {}
    for name in runs[0]:
        seconds = statistics.median(run[name] for run in runs)
        ratio = statistics.median(run[name] / run["softmax"] for run in runs)
        found[name] = {"seconds": seconds, "ratio": ratio}
        print(f"{title:12} {name:28} {seconds:8.3f} s {ratio:6.3f} x softmax", flush=True)
    return found


class AlwaysReturnAttention(nn.Module):
    """A model that always computes the source attention weights, even if they are not requested."""

    def __init__(self, model: TranslationModel) -> None:
        """Store the model."""
        super().__init__()
        self.model = model

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Run the model with teacher forcing and compute the attention weights."""
        return self.model(batch, mean_log_probs=mean_log_probs, output_attentions="source")


class Trained:
    """A model with one mechanism, its optimizer and its training batches."""

    def __init__(
        self,
        kind: str,
        name: str,
        data: Multi30k,
        token_batches: list[TokenBatch],
        precision: Precision,
        processes: ProcessGroup,
    ) -> None:
        """Build the model and the training step."""
        torch.manual_seed(1)
        self.bounded = name.startswith("constrained")
        self.precision = precision
        self.device = processes.device
        attends = kind == "transformer"
        if attends:
            made = replace(transformer(TRANSFORMER.dropout), **TRANSFORMERS[name])
            self.model: TranslationModel = TransformerModel(made, *sizes(data)).to(self.device).train()
            optimizer = AdamConfig(max_grad_norm=5.0, beta2=TRANSFORMER.beta2)
        else:
            recurrent = RnnConfig(**MECHANISMS[name], embedding_dropout=0.0)
            self.model = RnnModel(recurrent, *sizes(data)).to(self.device).train()
            optimizer = AdamConfig(max_grad_norm=5.0)
        config = TrainingConfig(
            optimizer=optimizer,
            lr_scheduler=ConstantConfig(),
            precision=precision,
            label_smoothing=TRANSFORMER.label_smoothing if attends else 0.0,
        )
        batches = [batch(one, self.bounded).to(self.device) for one in token_batches]
        self.train_step = make_train_step(self.model, batches, config, processes, 1)
        if attends and name != "softmax-fused":
            self.train_step.replica = AlwaysReturnAttention(self.model)

    def train(self, numbers: range) -> None:
        """Make one training step per batch number."""
        for number in numbers:
            self.train_step([np.array([number])])

    def decode(self, tests: list[TokenBatch]) -> None:
        """Run beam search on the batches."""
        # Untrained models stop at arbitrary lengths; a fixed length makes the amount of work equal.
        search = GenerationConfig(beam_size=5, min_length=12, max_length_ratio=0.0, max_length_offset=12)
        for one in tests:
            made = batch(one, self.bounded, with_target=False).to(self.device)
            beam_search(self.model, made.source, search, upper=made.upper_bounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kind", choices=KINDS, default="lstm", help="model architecture")
    every = list(dict.fromkeys([*MECHANISMS, *TRANSFORMERS]))
    parser.add_argument("--only", nargs="+", choices=every, help="default: all of the architecture")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=8, help="steps per mechanism and round; 0: none")
    parser.add_argument("--sentences", type=int, default=256, help="sentences per round; 0: none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", default="cpu", help="such as cpu, cuda")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    table = TRANSFORMERS if args.kind == "transformer" else MECHANISMS
    args.only = args.only or list(table)
    if absent := [name for name in args.only if name not in table]:
        parser.error(f"--only: {', '.join(absent)}: not available with --kind {args.kind}")
    names = list(dict.fromkeys(["softmax", *args.only]))
    if args.memory and len(args.only) > 1:
        # Peak memory is per process and never decreases, so each mechanism needs its own process.
        for name in names:
            subprocess.run(
                [
                    sys.executable,
                    __file__,
                    "--data",
                    str(args.data),
                    "--memory",
                    "--kind",
                    args.kind,
                    "--only",
                    name,
                    "--precision",
                    args.precision,
                    "--threads",
                    str(args.threads),
                    "--device",
                    args.device,
                ],
                check=True,
            )
        return
    torch.set_num_threads(args.threads)
    limit_kernel_caches()
    device = torch.device(args.device)
    processes = ProcessGroup(device=device)
    data = Multi30k(args.data)
    raw_batches = list(data.train_batches(args.rounds * args.updates + 3))
    if args.memory:
        trained = Trained(args.kind, args.only[0], data, raw_batches, args.precision, processes)
        trained.train(range(len(raw_batches)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(device) / 2**20
        print(f"{args.only[0]:28} {peak:8.0f} MiB after {len(raw_batches)} steps", flush=True)
        return
    # All models are in memory at the same time, so that the mechanisms can alternate within a round.
    runs = {name: Trained(args.kind, name, data, raw_batches, args.precision, processes) for name in names}
    for run in runs.values():
        run.train(range(3))
    record: dict[str, Any] = {}
    if args.updates:
        times = []
        for r in range(args.rounds):
            numbers = range(3 + r * args.updates, 3 + (r + 1) * args.updates)
            times.append(
                {name: timed(lambda run=run, n=numbers: run.train(n), device) for name, run in runs.items()}
            )
        record["training"] = report("training", times)
    if args.sentences:
        tests = list(data.sorted_batches("test", 32, args.sentences))
        for run in runs.values():
            run.decode(tests)
        times = [
            {name: timed(lambda run=run: run.decode(tests), device) for name, run in runs.items()}
            for _ in range(args.rounds)
        ]
        record["search"] = report("search", times)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
