"""Time of the attribution of one sentence pair, by kind of map.

    python benchmarks/attribution.py [--words 20] [--tokens-per-word 1.25] [--rounds 5]
        [--model DIRECTORY] [--json FILE]

Without a directory, the model is a Transformer of the base size (Vaswani et al., 2017) with random weights
and a shared vocabulary of 32,000 tokens, about 60 million parameters. Source and target have the same number
of tokens. The output is the median time over the rounds, after one round that is not counted, with the
processor time, which depends less on other processes.
Set OMP_NUM_THREADS to the number of cores.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import get_args

import torch

from regard.config import from_dict
from regard.data.batch import Batch, collate
from regard.generation.attribution import attribute
from regard.generation.config import AlignmentConfig, MapMethod
from regard.models import build_model
from regard.models.base import TranslationModel
from regard.models.transformer.model import TransformerConfig
from regard.runs.loading import load_model
from regard.text.vocabulary import EOS

VOCABULARY = 32_000
BASE = {"d_model": 512, "num_heads": 8, "feed_forward": {"ffn_size": 2048}, "tie_embeddings": "all"}
LAYERS = {"encoder": {"num_layers": 6}, "decoder": {"num_layers": 6}}


def random_batch(length: int, size: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, size, (2, length), generator=generator).tolist()
    return collate([tokens[0]], [[*tokens[1], EOS]], [0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--words", type=int, default=20)
    parser.add_argument("--tokens-per-word", type=float, default=1.25)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.model is None:
        config = from_dict(TransformerConfig, BASE | LAYERS)
        model: TranslationModel = build_model(config, VOCABULARY, VOCABULARY).eval()
        size = VOCABULARY
    else:
        loaded = load_model(options.model, "cpu")
        model = loaded.model.eval()
        size = min(len(side.vocabulary) for side in (loaded.text.source, loaded.text.target))
    length = round(options.words * options.tokens_per_word)
    batch = random_batch(length, size)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.1f} million parameters, {length} tokens, {torch.get_num_threads()} threads")
    medians = {}
    for method in get_args(MapMethod)[1:]:
        times, processor_times = [], []
        for _ in range(options.rounds + 1):
            start, processor_start = time.perf_counter(), time.process_time()
            attribute(model, batch, AlignmentConfig(map=method))
            times.append(time.perf_counter() - start)
            processor_times.append(time.process_time() - processor_start)
        medians[method] = statistics.median(times[1:])
        used = statistics.median(processor_times[1:])
        spread = f"from {min(times[1:]):.2f} to {max(times[1:]):.2f} s"
        print(f"{method}: {medians[method]:.2f} s, {spread}; processor time {used:.2f} s")
    if options.json is not None:
        result = {"seconds": medians, "parameters": parameters}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
