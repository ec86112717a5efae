"""Shared parts of the measured systems: the command line, the clock and the JSON output.

A system is a script that `compare.py` runs with the interpreter of that system and with this directory on
the module path. The command line and the JSON output are documented in `compare.py`. This module uses only
the standard library, so that it runs in every environment.
"""

import argparse
import json
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

__all__ = [
    "CONV",
    "KINDS",
    "TRANSFORMER",
    "Clocked",
    "ConvSizes",
    "TransformerSizes",
    "arguments",
    "peak_gib",
    "report",
    "write_translations",
]

T = TypeVar("T")

KINDS = ("lstm", "transformer", "conv")


@dataclass(frozen=True)
class TransformerSizes:
    """Sizes and regularization of the Transformer of the comparison; see `compare.py` for the other settings.

    Attributes:
        width: Dimension of embeddings and layers.
        heads: Number of heads of every attention.
        layers: Number of encoder layers, and of decoder layers.
        feed_forward: Size of the hidden layer of the feed-forward layers.
        dropout: Dropout on embeddings, sublayer outputs and the hidden layer of the feed-forward layers.
        label_smoothing: Probability mass that is distributed over the whole vocabulary.
        beta2: Adam's beta2.
    """

    width: int = 256
    heads: int = 4
    layers: int = 3
    feed_forward: int = 1024
    dropout: float = 0.1
    label_smoothing: float = 0.1
    beta2: float = 0.98


TRANSFORMER = TransformerSizes()


@dataclass(frozen=True)
class ConvSizes:
    """Sizes and dropout of the convolutional model of the comparison.

    Attributes:
        width: Dimension of embeddings and layers.
        layers: Number of encoder layers, and of decoder layers.
        kernel: Kernel size of the convolutions, in words.
        dropout: Dropout on the inputs of the convolutions.
    """

    width: int = 256
    layers: int = 4
    kernel: int = 3
    dropout: float = 0.2


CONV = ConvSizes()
DROPOUT = {"lstm": 0.3, "transformer": TRANSFORMER.dropout, "conv": CONV.dropout}


def arguments(description: str | None = None) -> argparse.Namespace:
    """Return the parsed command line, which is the same for every system (see `compare.py`)."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, required=True, help="output file of multi30k.prepare")
    common.add_argument("--kind", choices=KINDS, default="lstm", help="model architecture")
    common.add_argument("--threads", type=int, default=2)
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--precision", default="float32", help="float32 or bf16; int8 for CTranslate2")
    parser = argparse.ArgumentParser(description=description)
    modes = parser.add_subparsers(dest="mode", required=True)

    train = modes.add_parser("train", parents=[common], help="train, then compute validation perplexity")
    train.add_argument("--model", type=Path, help="output directory of the trained model")
    train.add_argument("--warmup", type=int, default=3, help="steps before the measurement")
    train.add_argument("--updates", type=int, default=30, help="number of measured steps")
    train.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate")
    train.add_argument("--clip", type=float, default=5.0, help="maximum norm of the gradient")
    train.add_argument("--dropout", type=float, help="default: 0.3 (lstm), 0.1 (transformer), 0.2 (conv)")

    decode = modes.add_parser("decode", parents=[common], help="beam search over test_2016_flickr")
    decode.add_argument("--model", type=Path, required=True, help="model directory written by train")
    decode.add_argument("--beam", type=int, default=5)
    decode.add_argument("--batch", type=int, default=32, help="sentences per batch")
    decode.add_argument("--sentences", type=int, help="number of sentences; default: all")
    decode.add_argument(
        "--output", type=Path, help="output file, one translation per line, words separated by spaces"
    )
    args = parser.parse_args()
    if args.mode == "train" and args.dropout is None:
        args.dropout = DROPOUT[args.kind]
    return args


class Clocked(Generic[T]):
    """An iterable that measures the time from the first item after the warm-up until the items are exhausted.

    A trainer requests the next batch only after the previous step, so its own training loop can be measured
    without a change to it.

    Args:
        items: The items to yield.
        warmup: The number of items to yield before the measurement starts.

    Attributes:
        seconds: Wall-clock time of the measurement; NaN until the items are exhausted.
        peak: Peak resident memory of the process at the end, in GiB.
        cpus: Processor time per second of wall-clock time; below the number of threads if threads waited.
    """

    def __init__(self, items: Iterable[T], warmup: int = 0) -> None:
        """Store the items."""
        self._items = items
        self._warmup = warmup
        self.seconds = float("nan")
        self.peak = float("nan")
        self.cpus = float("nan")

    def __iter__(self) -> Iterator[T]:
        """Yield the items and record time, processor time and peak memory."""
        started, worked = time.perf_counter(), time.process_time()
        for number, item in enumerate(self._items):
            # The time before this item is warm-up.
            if number == self._warmup:
                started, worked = time.perf_counter(), time.process_time()
            yield item
        self.seconds = time.perf_counter() - started
        self.cpus = (time.process_time() - worked) / self.seconds
        self.peak = peak_gib()


def peak_gib() -> float:
    """Return the peak resident memory of this process in GiB (Linux reports KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def report(**figures: Any) -> None:
    """Print the figures as one line of JSON, which must be the last line on standard output."""
    print(json.dumps(figures), flush=True)


def write_translations(path: Path, translations: Mapping[int, Sequence[str]]) -> None:
    """Write one sentence per line in the order of the keys, words separated by spaces."""
    lines = (" ".join(translations[number]) + "\n" for number in sorted(translations))
    path.write_text("".join(lines), encoding="utf-8")
