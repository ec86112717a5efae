"""Contrastive conditioning as a detector of coverage errors: quality and cost.

    python benchmarks/contrastive_check.py quality DATA --model DIR --reverse DIR
    python benchmarks/contrastive_check.py cost DATA --model DIR

DATA contains `multi30k`. `quality` makes synthetic omissions and additions in good translations of one split
and prints for each detector the area under the ROC curve (AUROC) and the average precision (AP) of sentences
and of words. Words are compared in all sentences, and in sentences with an error only (the question is then
which word is affected). The labels come from links of the aligner that `combined` and `alignment` use, which
favors these two.

`cost` compares the time of contrastive conditioning with that of the translation of the same sentences with
beam 5, for all sentences as one text and for each sentence alone. Both are measured in turn, and the medians
and their ratio are printed.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.api.loading import load_translator
from regard.extensions.check.base import (
    ContrastiveConfig,
    CoverageError,
    DetectionInput,
    PairScores,
    build_detector,
)
from regard.extensions.check.contrastive import ContrastiveDetector
from regard.extensions.check.corruptions import CorruptedPair, Corruption, CorruptionConfig, corrupt_pairs
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import load_coverage_model, save_coverage_model
from regard.extensions.check.posteriors import TextPosteriors
from regard.extensions.check.text import WordPair, split_pairs
from regard.generation.base import BaseTranslator
from regard.generation.lines import enumerate_lines
from regard.text.corpus import read_lines

KINDS: Mapping[CoverageError, tuple[Corruption, ...]] = {
    "omission": ("deletion", "truncation"),
    "addition": ("insertion",),
}
SETTINGS = ("max_span", "candidates", "word_penalty")
Scores = list[PairScores]


def auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the probability that an affected item scores higher than another one; ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = int(labels.sum())
    total = ranks[labels].sum() - positive * (positive + 1) / 2
    return float(total / (positive * (len(labels) - positive)))


def average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the mean precision at the rank of each affected item; items with equal scores share a rank."""
    order = np.argsort(-scores, kind="stable")
    hits, ordered = np.cumsum(labels[order]), scores[order]
    last = np.append(np.nonzero(np.diff(ordered))[0], len(ordered) - 1)
    precision, recall = hits[last] / (last + 1), hits[last] / hits[-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def read_pairs(data: Path, split: str) -> list[WordPair]:
    """Return the German-English pairs of a split of Multi30k."""
    sides = [read_lines(data / "multi30k" / f"{split}.{side}.gz") for side in ("de", "en")]
    return split_pairs(*map(list, sides))


def coverage_model(data: Path, cache: Path | None) -> ErrorModel:
    """Return the model of good translations, trained on the training text."""
    if cache is not None and cache.exists():
        return load_coverage_model(cache)
    model = ErrorModel.train(read_pairs(data, "train"))
    if cache is not None:
        save_coverage_model(model, cache)
    return model


def summary(examples: Sequence[CorruptedPair], scores: Scores, error: CoverageError) -> dict[str, float]:
    """Return AUROC and AP of sentences and words, in percent."""
    affected = [one.omitted if error == "omission" else one.added for one in examples]
    hit = np.array([bool(own) for own in affected])
    sentences = np.array([one.sentence[error] for one in scores])
    words = [one.words[error] for one in scores]
    labels = [
        np.isin(np.arange(len(own)), list(positions)) for own, positions in zip(words, affected, strict=True)
    ]
    flat, values = np.concatenate(labels), np.concatenate(words)
    inside = np.repeat(hit, [len(own) for own in words])
    figures = {
        "sentence AUROC": auroc(hit, sentences),
        "sentence AP": average_precision(hit, sentences),
        "word AUROC": auroc(flat, values),
        "word AP": average_precision(flat, values),
        "word AUROC, sentences with an error": auroc(flat[inside], values[inside]),
        "base rate of words": float(flat.mean()),
    }
    return {name: round(100 * value, 1) for name, value in figures.items()}


def quality(options: argparse.Namespace) -> None:
    """Print the quality of all detectors."""
    model = coverage_model(options.data, options.coverage_model)
    pairs = read_pairs(options.data, options.split)
    links = TextPosteriors.of(model.aligner, pairs).best_links()
    both: dict[str, Any] = {"translator": load(options.model), "reverse_translator": load(options.reverse)}
    config = ContrastiveConfig(**{name: getattr(options, name) for name in SETTINGS})
    detectors: dict[str, Callable[[Sequence[WordPair]], Scores]] = {
        "contrastive": ContrastiveDetector(DetectionInput(**both, contrastive=config)).detect,
        "contrastive, candidates of combined": ContrastiveDetector(
            DetectionInput(**both, model=model, contrastive=config)
        ).detect,
        "alignment": build_detector("alignment", DetectionInput(model=model)).detect,
        "combined": build_detector("combined", DetectionInput(model=model)).detect,
    }
    for error, kinds in KINDS.items():
        examples = corrupt_pairs(pairs, links, CorruptionConfig(kinds=kinds, seed=options.seed))
        for name, detect in detectors.items():
            start = time.perf_counter()
            scores = detect([one.pair for one in examples])
            seconds = time.perf_counter() - start
            print(error, name, summary(examples, scores, error), f"{seconds:.1f} s", flush=True)


def cost(options: argparse.Namespace) -> None:
    """Print the time of contrastive conditioning relative to a translation with beam 5."""
    translator = load(options.model)
    near = [pair for pair in read_pairs(options.data, "train") if len(pair.source) == options.length]
    sources = [pair.lines[0] for pair in near[: options.sentences] if pair.lines is not None]
    translated = [result.text for result in translator.translate(enumerate_lines(sources))]
    pairs = split_pairs(sources, translated)
    config = ContrastiveConfig(**{name: getattr(options, name) for name in SETTINGS})
    detector = ContrastiveDetector(DetectionInput(translator=translator, contrastive=config))
    inputs = DetectionInput(
        translator=translator, contrastive=config, model=coverage_model(options.data, options.coverage_model)
    )
    with_evidence = ContrastiveDetector(inputs)
    tasks: dict[str, Callable[[], Any]] = {
        "text, translation": lambda: list(translator.translate(enumerate_lines(sources))),
        "text, contrastive": lambda: detector.detect(pairs),
        "text, evidence of combined": lambda: with_evidence.detect(pairs),
        "alone, translation": lambda: [list(translator.translate(enumerate_lines([one]))) for one in sources],
        "alone, contrastive": lambda: [detector.detect([pair]) for pair in pairs],
        "alone, evidence of combined": lambda: [with_evidence.detect([pair]) for pair in pairs],
    }
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(options.rounds + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append((time.perf_counter() - start) / len(pairs))
    print(f"{len(pairs)} sentences of {options.length} words, beam {translator.search.beam_size}, {config}")
    for kind, method in product(("text", "alone"), ("contrastive", "evidence of combined")):
        # The first round compiles kernels.
        own, other = (times[f"{kind}, {name}"][1:] for name in (method, "translation"))
        ratios = [a / b for a, b in zip(own, other, strict=True)]
        print(
            f"{kind}: translation {1000 * statistics.median(other):.1f} ms, {method} "
            f"{1000 * statistics.median(own):.1f} ms per sentence, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


def load(directory: Path) -> BaseTranslator:
    """Load a model directory."""
    return load_translator([directory])


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("quality", "cost"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="German to English.")
    parser.add_argument("--reverse", type=Path, help="English to German.")
    parser.add_argument("--coverage-model", type=Path, help="Where the model of good translations is kept.")
    parser.add_argument("--split", default="val")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-span", type=int, default=ContrastiveConfig().max_span)
    parser.add_argument("--candidates", type=float, default=ContrastiveConfig().candidates)
    parser.add_argument("--word-penalty", type=float, default=ContrastiveConfig().word_penalty)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--length", type=int, default=20, help="Words of a sentence, with its marks.")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__}")  # fmt: skip
    {"quality": quality, "cost": cost}[options.task](options)


if __name__ == "__main__":
    main()
