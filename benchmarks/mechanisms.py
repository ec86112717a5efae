"""What attention mechanisms cost beside softmax attention: training, beam search, memory.

    python benchmarks/mechanisms.py --data FILE [--only posterior posterior-linear] [--rounds 9] [--json FILE]
    python benchmarks/mechanisms.py --data FILE --kind transformer
    python benchmarks/mechanisms.py --data FILE --memory      peak memory, each mechanism in a fresh process

FILE is the one that `multi30k.prepare` writes (`compare.py` leaves it in its cache). The same recurrent model
is trained with each mechanism in turn, a few updates each a round, on the same batches; then all search.
Constrained attention reads one source token more, the sink. Ratios are medians over the rounds.

A Transformer, that of `compare.py`, has the mechanism in every layer of the decoder. Its softmax makes all
weights of attention to the source, as every other mechanism has to, and is what ratios are to;
`softmax-fused` is the same by PyTorch's fused operator, which shows none. Self-attention is fused in all.
Fertilities are those of a head, or (`-shared`) of a layer's heads together.
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
from multi30k import Batch as Drawn
from multi30k import Multi30k
from ours import Given, ours, sizes, transformer
from torch import nn

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, collate
from regard.data.vocabulary import EOS, SINK
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.kernels.products import bound_memory
from regard.models.base import Look, Outcome, TranslationModel
from regard.models.lstm import LstmModel
from regard.models.lstm_config import DecoderConfig, LstmConfig
from regard.models.transformer import TransformerModel
from regard.training.checkpoint import TrainingState
from regard.training.config import TrainingConfig
from regard.training.device import Precision
from regard.training.distributed import ALONE
from regard.training.optimizer import AdamConfig, build_optimizer
from regard.training.progress import Progress
from regard.training.schedule import ConstantConfig, build_schedule
from regard.training.update import Updater

LINEAR = DecoderConfig(readout="linear")
MECHANISMS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "constrained-softmax": {"attention": ConstrainedAttentionConfig(map="softmax", exhaustion=0.2)},
    "constrained-sparsemax": {"attention": ConstrainedAttentionConfig(map="sparsemax", exhaustion=0.2)},
    "prior": {"attention": PosteriorAttentionConfig(passes="prior", beyond="drop")},
    "posterior": {"attention": PosteriorAttentionConfig(beyond="drop")},
    "posterior-mean": {"attention": PosteriorAttentionConfig()},
    "monotonic": {"attention": PosteriorAttentionConfig(coupling="monotonic", beyond="drop")},
    "posterior-linear": {"attention": PosteriorAttentionConfig(beyond="drop"), "decoder": LINEAR},
    "posterior-linear-mean": {"attention": PosteriorAttentionConfig(), "decoder": LINEAR},
    "posterior-linear-all": {"attention": PosteriorAttentionConfig(contexts=0), "decoder": LINEAR},
    "monotonic-linear": {
        "attention": PosteriorAttentionConfig(coupling="monotonic", beyond="drop"),
        "decoder": LINEAR,
    },
}
SHARED = ConstrainedAttentionConfig(map="sparsemax", exhaustion=0.2, budget="per_layer")
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax-fused": {},
    "sparsemax": {"attention": SoftAttentionConfig(map="sparsemax")},
    "constrained-softmax": MECHANISMS["constrained-softmax"],
    "constrained-sparsemax": MECHANISMS["constrained-sparsemax"],
    "constrained-sparsemax-shared": {"attention": SHARED},
}


def batch(drawn: Drawn, bounded: bool, with_target: bool = True) -> Batch:
    """A batch of the comparison; with fertilities of 2 and a sink where attention is bounded."""
    targets = [[*ours(sentence), EOS] for sentence in drawn.target] if with_target else None
    sources = [ours(sentence) for sentence in drawn.source]
    if not bounded:
        return collate(sources, targets, drawn.indices)
    upper = [np.array([2.0] * len(one) + [np.inf], dtype=np.float32) for one in sources]
    return collate([[*one, SINK] for one in sources], targets, drawn.indices, upper)


def timed(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def report(title: str, runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Print and return medians and ratios to softmax."""
    found = {}
    for name in runs[0]:
        seconds = statistics.median(run[name] for run in runs)
        ratio = statistics.median(run[name] / run["softmax"] for run in runs)
        found[name] = {"seconds": seconds, "ratio": ratio}
        print(f"{title:12} {name:28} {seconds:8.3f} s {ratio:6.3f} x softmax", flush=True)
    return found


class Looking(nn.Module):
    """A model that makes all weights of attention to the source, whether or not somebody wants them."""

    def __init__(self, model: TranslationModel) -> None:
        """Keep the model."""
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Teacher forcing."""
        return self.model(batch, average=average, look="source")


class Trained:
    """A model with its optimizer, and the batches of a run."""

    def __init__(
        self, kind: str, name: str, data: Multi30k, drawn: list[Drawn], precision: Precision
    ) -> None:
        """Build both."""
        torch.manual_seed(1)
        self.bounded = name.startswith("constrained")
        self.precision = precision
        attends = kind == "transformer"
        if attends:
            made = replace(transformer(TRANSFORMER.dropout), **TRANSFORMERS[name])
            self.model: TranslationModel = TransformerModel(made, *sizes(data)).train()
            optimizer = AdamConfig(clip=5.0, beta2=TRANSFORMER.beta2)
        else:
            recurrent = LstmConfig(**MECHANISMS[name], embedding_dropout=0.0)
            self.model = LstmModel(recurrent, *sizes(data)).train()
            optimizer = AdamConfig(clip=5.0)
        config = TrainingConfig(
            optimizer=optimizer,
            schedule=ConstantConfig(),
            precision=precision,
            label_smoothing=TRANSFORMER.label_smoothing if attends else 0.0,
        )
        state = TrainingState(
            self.model,
            build_optimizer(config.optimizer, list(self.model.parameters())),
            build_schedule(config.schedule),
            Progress(),
        )
        batches = [batch(one, self.bounded) for one in drawn]
        self.updater = Updater(state, Given(batches), config, ALONE, 1)
        if attends and name != "softmax-fused":
            self.updater.replica = Looking(self.model)

    def train(self, numbers: range) -> None:
        """Make updates from the batches of these numbers."""
        for number in numbers:
            self.updater([np.array([number])])

    def decode(self, tests: list[Drawn]) -> None:
        """Search."""
        # Untrained models end where they like; a fixed length makes them do the same work.
        search = SearchConfig(beam=5, min_length=12, max_length_ratio=0.0, max_length_extra=12)
        for one in tests:
            made = batch(one, self.bounded, with_target=False)
            beam_search(self.model, made.source, search, upper=made.upper)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kind", choices=KINDS, default="lstm", help="the model")
    every = list(dict.fromkeys([*MECHANISMS, *TRANSFORMERS]))
    parser.add_argument("--only", nargs="+", choices=every, help="without it all that the model has")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=8, help="updates of each in a round; 0: none")
    parser.add_argument("--sentences", type=int, default=256, help="sentences searched in a round; 0: none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of time")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    table = TRANSFORMERS if args.kind == "transformer" else MECHANISMS
    args.only = args.only or list(table)
    if absent := [name for name in args.only if name not in table]:
        parser.error(f"--only: {', '.join(absent)}: not measured in a model of kind {args.kind}")
    names = list(dict.fromkeys(["softmax", *args.only]))
    if args.memory and len(args.only) > 1:
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
                ],
                check=True,
            )
        return
    torch.set_num_threads(args.threads)
    bound_memory()
    data = Multi30k(args.data)
    drawn = list(data.train_batches(args.rounds * args.updates + 3))
    if args.memory:
        Trained(args.kind, args.only[0], data, drawn, args.precision).train(range(len(drawn)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{args.only[0]:28} {peak:8.0f} MiB after {len(drawn)} updates", flush=True)
        return
    runs = {name: Trained(args.kind, name, data, drawn, args.precision) for name in names}
    for run in runs.values():
        run.train(range(3))
    record: dict[str, Any] = {}
    if args.updates:
        times = []
        for r in range(args.rounds):
            numbers = range(3 + r * args.updates, 3 + (r + 1) * args.updates)
            times.append({name: timed(lambda run=run, n=numbers: run.train(n)) for name, run in runs.items()})
        record["training"] = report("training", times)
    if args.sentences:
        tests = list(data.sorted_batches("test", 32, args.sentences))
        for run in runs.values():
            run.decode(tests)
        times = [
            {name: timed(lambda run=run: run.decode(tests)) for name, run in runs.items()}
            for _ in range(args.rounds)
        ]
        record["search"] = report("search", times)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
