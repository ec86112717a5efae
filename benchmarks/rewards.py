"""Time of the rewards of hard attention: BLEU of every prefix, for a batch of sentences.

    python benchmarks/rewards.py [--sentences 64] [--words 50] [--calls 200] [--json FILE]

`prefix BLEU` is `regard.metrics.translation.prefix_bleu` on arrays. `returns` is the function that a training
step calls, `regard.training.losses.objectives.compute_returns`, from tensors to the sum of the rewards from
each time step on. The words of the references are sampled from Zipf's law, so that some are repeated; the
share `--right` of the generated words is equal to the reference. Both sides have the same number of words,
and an end symbol. Times are per call, after warm-up.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import PaddedSequences
from regard.metrics.translation import prefix_bleu
from regard.text.vocabulary import EOS, SPECIAL_TOKENS, UNK
from regard.training.losses.objectives import compute_returns

__all__: list[str] = []

VOCABULARY = 10_000


def sample_sentences(sentences: int, words: int, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Return generated sentences and references of shape (sentences, words + 1), with end symbols."""
    generator = np.random.default_rng(1)
    ranks = 1 / np.arange(1, VOCABULARY + 1)
    both = generator.choice(VOCABULARY, (2, sentences, words), p=ranks / ranks.sum()) + len(SPECIAL_TOKENS)
    produced = np.where(generator.random((sentences, words)) < right, both[1], both[0])
    ends = np.full((sentences, 1), EOS)
    return np.concatenate([produced, ends], axis=1), np.concatenate([both[1], ends], axis=1)


def seconds(call: Callable[[], object], calls: int) -> list[float]:
    """Return the seconds of each call, after three warm-up calls."""
    for _ in range(3):
        call()
    found = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--words", type=int, default=50)
    parser.add_argument("--right", type=float, default=0.6, help="share of words equal to the reference")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    produced, reference = sample_sentences(args.sentences, args.words, args.right)
    lengths = np.full(args.sentences, args.words + 1)
    targets = PaddedSequences(torch.from_numpy(reference), torch.from_numpy(lengths))
    tokens = torch.from_numpy(produced)
    timed = {
        "prefix BLEU": lambda: prefix_bleu(produced, lengths, reference, lengths, EOS, UNK),
        "returns": lambda: compute_returns(tokens, targets),
    }
    record = {}
    for name, call in timed.items():
        times = sorted(seconds(call, args.calls))
        tenth = times[len(times) // 10], times[-1 - len(times) // 10]
        record[name] = {"median": statistics.median(times), "tenths": tenth}
        print(
            f"{name:12} {1e3 * record[name]['median']:8.3f} ms, 8 of 10 calls within "
            f"{1e3 * tenth[0]:.3f} and {1e3 * tenth[1]:.3f} ms"
        )
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
