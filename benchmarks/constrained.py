"""What constrained sparsemax attention costs beside softmax attention: training and beam search, one process.

    python benchmarks/constrained.py --data FILE [--rounds 9] [--json FILE]

FILE is the one that `multi30k.prepare` writes (`compare.py` leaves it in its cache). The same recurrent model
is trained with both mechanisms in turn, a few updates each a round, on the same batches; then both search.
Constrained attention reads one source token more, the sink. Ratios are medians over the rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from multi30k import Batch as Drawn
from multi30k import Multi30k
from ours import Given, ours

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, collate
from regard.data.vocabulary import EOS, SINK
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.kernels.products import bound_memory
from regard.models.lstm import LstmModel
from regard.models.lstm_config import LstmConfig
from regard.training.checkpoint import TrainingState
from regard.training.config import TrainingConfig
from regard.training.distributed import ALONE
from regard.training.optimizer import AdamConfig, build_optimizer
from regard.training.progress import Progress
from regard.training.schedule import ConstantConfig, build_schedule
from regard.training.update import Updater

MECHANISMS = {
    "softmax": SoftAttentionConfig(),
    "constrained softmax": ConstrainedAttentionConfig(map="softmax", exhaustion=0.2),
    "constrained sparsemax": ConstrainedAttentionConfig(map="sparsemax", exhaustion=0.2),
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
        print(f"{title:12} {name:24} {seconds:8.3f} s {ratio:6.3f} x softmax", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=8, help="updates of each in a round")
    parser.add_argument("--sentences", type=int, default=256, help="sentences searched in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bound_memory()
    data = Multi30k(args.data)
    drawn = list(data.train_batches(args.rounds * args.updates + 3))
    config = TrainingConfig(optimizer=AdamConfig(clip=5.0), schedule=ConstantConfig())
    updaters, models = {}, {}
    for name, attention in MECHANISMS.items():
        torch.manual_seed(1)
        sizes = len(data.source_words) + 1, len(data.target_words) + 1
        model = LstmModel(LstmConfig(attention=attention, embedding_dropout=0.0), *sizes).train()
        made = [batch(one, name != "softmax") for one in drawn]
        optimizer = build_optimizer(config.optimizer, list(model.parameters()))
        state = TrainingState(model, optimizer, build_schedule(config.schedule), Progress())
        updaters[name], models[name] = Updater(state, Given(made), config, ALONE, 1), model

    def train(name: str, numbers: range) -> None:
        for number in numbers:
            updaters[name]([np.array([number])])

    for name in MECHANISMS:
        train(name, range(3))
    runs = []
    for r in range(args.rounds):
        numbers = range(3 + r * args.updates, 3 + (r + 1) * args.updates)
        runs.append(
            {name: timed(lambda name=name, numbers=numbers: train(name, numbers)) for name in MECHANISMS}
        )
    record = {"training": report("training", runs)}

    # Untrained models end where they like; a fixed length makes them do the same work.
    search = SearchConfig(beam=5, min_length=12, max_length_ratio=0.0, max_length_extra=12)
    tests = list(data.sorted_batches("test", 32, args.sentences))

    def decode(name: str) -> None:
        for one in tests:
            made = batch(one, name != "softmax", with_target=False)
            beam_search(models[name], made.source, search, upper=made.upper)

    for name in MECHANISMS:
        decode(name)
    runs = [{name: timed(lambda name=name: decode(name)) for name in MECHANISMS} for _ in range(args.rounds)]
    record["search"] = report("search", runs)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
