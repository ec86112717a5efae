"""What every measured system shares: its command line, its clock and the line of JSON it ends with.

A system is a script that `compare.py` runs with that system's own interpreter, with this folder on the
module path; `compare.py` documents the command line and the JSON. Only the standard library is used here,
so that it runs in every environment.
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
    """The Transformer of the comparison; `compare.py` says what else belongs to it.

    Attributes:
        width: Of embeddings and layers.
        heads: Of every attention.
        layers: Of the encoder, and of the decoder.
        feed_forward: Width of the hidden layer of the feed-forward networks.
        dropout: Of embeddings, of what sublayers find, and of the hidden layer of feed-forward networks.
        label_smoothing: How much of a target goes to the whole vocabulary.
        beta2: Of Adam.
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
    """The convolutional model of the comparison.

    Attributes:
        width: Of embeddings and layers.
        layers: Of the encoder, and of the decoder.
        kernel: How many words a convolution sees.
        dropout: Of what convolutions see.
    """

    width: int = 256
    layers: int = 4
    kernel: int = 3
    dropout: float = 0.2


CONV = ConvSizes()
DROPOUT = {"lstm": 0.3, "transformer": TRANSFORMER.dropout, "conv": CONV.dropout}


def arguments(description: str | None = None) -> argparse.Namespace:
    """Read the command line that every system's script takes (see `compare.py`)."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, required=True, help="the file that multi30k.prepare wrote")
    common.add_argument("--kind", choices=KINDS, default="lstm", help="which of the models")
    common.add_argument("--threads", type=int, default=2)
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--precision", default="float32", help="float32; bf16 or int8 where there is one")
    parser = argparse.ArgumentParser(description=description)
    modes = parser.add_subparsers(dest="mode", required=True)

    train = modes.add_parser("train", parents=[common], help="updates, then validation perplexity")
    train.add_argument("--model", type=Path, help="folder to keep the trained model in")
    train.add_argument("--warmup", type=int, default=3, help="updates before the clock starts")
    train.add_argument("--updates", type=int, default=30, help="updates on the clock")
    train.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate")
    train.add_argument("--clip", type=float, default=5.0, help="bound on the gradient's norm")
    train.add_argument("--dropout", type=float, help="without it the kind's own: 0.3, 0.1 or 0.2")

    decode = modes.add_parser("decode", parents=[common], help="beam search over test_2016_flickr")
    decode.add_argument("--model", type=Path, required=True, help="folder that train filled")
    decode.add_argument("--beam", type=int, default=5)
    decode.add_argument("--batch", type=int, default=32, help="sentences a batch")
    decode.add_argument("--sentences", type=int, help="how many sentences; all without it")
    decode.add_argument(
        "--output", type=Path, help="file for the translations, words with spaces, a line each"
    )
    args = parser.parse_args()
    if args.mode == "train" and args.dropout is None:
        args.dropout = DROPOUT[args.kind]
    return args


class Clocked(Generic[T]):
    """Hands out items and times from the one after the warm-up to the request after the last.

    A trainer asks for the next batch only when it has made the update before, so its own loop, whatever it
    is, can be timed from the outside.

    Args:
        items: What to hand out.
        warmup: How many items to hand out before the clock starts.

    Attributes:
        seconds: Wall time on the clock, once the items are used up.
        peak: Peak resident memory of the process at that moment, GiB.
        cpus: Processor time of the process a second of wall time; less than its threads where it waited.
    """

    def __init__(self, items: Iterable[T], warmup: int = 0) -> None:
        """Keep the items until they are asked for."""
        self._items = items
        self._warmup = warmup
        self.seconds = float("nan")
        self.peak = float("nan")
        self.cpus = float("nan")

    def __iter__(self) -> Iterator[T]:
        """Hand out the items."""
        started, worked = time.perf_counter(), time.process_time()
        for number, item in enumerate(self._items):
            if number == self._warmup:
                started, worked = time.perf_counter(), time.process_time()
            yield item
        self.seconds = time.perf_counter() - started
        self.cpus = (time.process_time() - worked) / self.seconds
        self.peak = peak_gib()


def peak_gib() -> float:
    """Peak resident memory of this process so far, GiB (Linux counts it in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def report(**figures: Any) -> None:
    """Print the figures as one line of JSON, the last line on standard output."""
    print(json.dumps(figures), flush=True)


def write_translations(path: Path, translations: Mapping[int, Sequence[str]]) -> None:
    """Write sentences, keyed by their number, a line each in order, words with spaces between."""
    lines = (" ".join(translations[number]) + "\n" for number in sorted(translations))
    path.write_text("".join(lines), encoding="utf-8")
