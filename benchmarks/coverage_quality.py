"""How well detectors find coverage errors: synthetic errors, the phrasebook, and human judgments.

    python benchmarks/coverage_quality.py synthetic DATA [--split val|test] [--model-dir DIR]
    python benchmarks/coverage_quality.py phrasebook
    python benchmarks/coverage_quality.py parliament DATA
    python benchmarks/coverage_quality.py news DATA
    python benchmarks/coverage_quality.py judgments DATA [--split dev|test]
    python benchmarks/coverage_quality.py reliability DATA [--model-dir DIR]

DATA contains the directories `multi30k`, `europarl20k` and `coverage`. Choices are made on val and dev.
`synthetic` trains on Multi30k; `parliament` trains on Europarl and 10,000 captions, and detects synthetic
errors in other sentences of both; `news` trains on the same text from English to German, and detects
synthetic errors in three translations of newstest2020, a text of another kind; `judgments` has the same
model, and compares the spans that both annotators of Vamvas & Sennrich (2022) call an undertranslation of
important information with those that both call a good translation, and the sentences in which the raters of
MQM found an omission with the others; `reliability` compares the probabilities of sentences with the shares
of errors in the last 6,000 pairs of the training text of Multi30k, on the rest of which it trains.
"""

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from regard.extensions.check.base import CoverageError, SentenceError, WordPair, build_detector, split_pairs
from regard.extensions.check.corruptions import Corruption, CorruptionConfig, corrupt_pairs, word_labels
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import load_coverage_model, save_coverage_model
from regard.extensions.check.posteriors import TextWords
from regard.extensions.phrasebook.corpus import generate
from regard.text.links import Links
from regard.text.words import word_spans

ERRORS: dict[Corruption, CoverageError] = {
    "deletion": "omission",
    "truncation": "omission",
    "insertion": "addition",
    "repetition": "repetition",
    "unrelated": "omission",
}
DETECTORS = ("combined", "length", "repetition")
NUM_WORDS = 40  # words that make up about 40 % of a text: those alone carry little information
SEED = 11
COMPARISONS = ("synthetic", "phrasebook", "parliament", "news", "judgments", "reliability")
NUM_RELIABILITY_PAIRS = 6_000
ERROR_RATE = 0.05  # for which the detector is calibrated


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


def read_lines(path: Path) -> list[str]:
    """Return the lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def read_pairs(
    data: Path, corpus: str, name: str, languages: tuple[str, str] = ("de", "en")
) -> list[WordPair]:
    """Return the pairs of a corpus whose sides have words."""
    sides = [read_lines(data / corpus / f"{name}.{language}.gz") for language in languages]
    return [pair for pair in split_pairs(*sides) if pair.source and pair.target]


def frequent_words(pairs: Sequence[WordPair]) -> set[str]:
    """Return the source words with the highest frequency."""
    words, counts = np.unique([word for pair in pairs for word in pair.folded[0]], return_counts=True)
    return set(words[np.argsort(-counts)[:NUM_WORDS]].tolist())


def report_synthetic(model: ErrorModel, pairs: Sequence[WordPair], links: Sequence[Links]) -> None:
    """Print the figures of each detector for each kind of error in half of the pairs."""
    frequent = frequent_words(pairs)
    print(f"{'error':<12}{'detector':<12}{'AUROC':>8}{'word F1':>9}{'precision':>11}{'recall':>8}")
    for kind, error in ERRORS.items():
        examples = corrupt_pairs(pairs, links, CorruptionConfig(kinds=(kind,), seed=SEED))
        hit = np.array([one.kind is not None for one in examples])
        for name in DETECTORS:
            scores = build_detector(name, model).detect([one.pair for one in examples])
            score: SentenceError = "unrelated" if kind == "unrelated" else error
            if score not in scores[0].sentence:
                continue
            sentence = np.array([one.sentence[score] for one in scores])
            line = f"{kind:<12}{name:<12}{auroc(hit, sentence):>8.4f}"
            if error in scores[0].words and kind != "unrelated":
                found = np.concatenate([one.words[error] for one in scores]) >= 0.4
                truth = word_labels(examples, error)
                right = int((found & truth).sum())
                precision, recall = right / max(int(found.sum()), 1), right / max(int(truth.sum()), 1)
                f1 = 2 * right / max(int(found.sum() + truth.sum()), 1)
                line += f"{f1:>9.3f}{precision:>11.3f}{recall:>8.3f}"
            if kind == "deletion":
                content = np.array(
                    [any(one.pair.folded[0][i] not in frequent for i in one.omitted) for one in examples]
                )
                kept = content | ~hit
                line += f"   with a word beyond the {NUM_WORDS} words of highest frequency: "
                line += f"{auroc(hit[kept], sentence[kept]):.4f} ({int(content.sum())} pairs)"
            print(line, flush=True)


def find_links(model: ErrorModel, pairs: Sequence[WordPair]) -> list[Links]:
    """Return the links of the words of each pair."""
    return model.aligner.posteriors(TextWords.of(pairs)).best_links()


def synthetic(data: Path, split: str, directory: Path | None) -> None:
    """Print the figures of Multi30k."""
    model = train(read_pairs(data, "multi30k", "train"), directory)
    pairs = read_pairs(data, "multi30k", {"test": "test_2016_flickr"}.get(split, split))
    report_synthetic(model, pairs, find_links(model, pairs))


def phrasebook() -> None:
    """Print the figures of the phrasebook, whose links are known."""
    made = [list(islice(generate(seed), count)) for seed, count in ((1, 10_000), (2, 1_000))]
    training, pairs = ([WordPair(tuple(one.source), tuple(one.target)) for one in part] for part in made)
    report_synthetic(train(training), pairs, [one.links for one in made[1]])


def train(pairs: Sequence[WordPair], directory: Path | None = None) -> ErrorModel:
    """Train a model and print the time, or load it if it was saved before."""
    if directory is not None and directory.exists():
        return load_coverage_model(directory)
    start = time.perf_counter()
    model = ErrorModel.train(pairs)
    print(f"trained on {len(pairs)} pairs in {time.perf_counter() - start:.0f} s", flush=True)
    if directory is not None:
        save_coverage_model(model, directory)
    return model


def mixed_text(data: Path, languages: tuple[str, str]) -> list[WordPair]:
    """Return Europarl and 10,000 captions."""
    parliament = read_pairs(data, "europarl20k", "train", languages)
    short = [pair for pair in parliament if max(len(pair.source), len(pair.target)) <= 100]
    return short + read_pairs(data, "multi30k", "train", languages)[:10_000]


def parliament(data: Path, directory: Path | None) -> None:
    """Print the figures of news and captions with a model of parliament and captions."""
    model = train(mixed_text(data, ("de", "en")), directory)
    for corpus, name in (("europarl20k", "validation"), ("multi30k", "val")):
        pairs = read_pairs(data, corpus, name)
        print(corpus, name)
        report_synthetic(model, pairs, find_links(model, pairs))


def news(data: Path, directory: Path | None) -> None:
    """Print the figures of news with a model of parliament and captions."""
    model = train(mixed_text(data, ("en", "de")), directory)
    sources = read_lines(data / "coverage" / "newstest2020-ende-src.en.txt.gz")
    for system in ("Human-B.0", "UEDIN.1136", "zlabs-nlp.179"):
        targets = read_lines(data / "coverage" / f"newstest2020.en-de.{system}.txt.gz")
        pairs = [pair for pair in split_pairs(sources, targets) if pair.source and pair.target]
        print(system)
        report_synthetic(model, pairs, find_links(model, pairs))


def report_raters(model: ErrorModel, data: Path, split: str) -> None:
    """Print how well the sentences in which raters found an omission are distinguished from the others."""
    rows: dict[tuple[str, int], dict] = {}
    for annotator in (1, 2):
        for line in read_lines(data / "coverage" / f"annotations.en-de.{annotator}.jsonl.gz"):
            row = json.loads(line)
            if row["split"] == split:
                rows.setdefault((row["system"], row["seg_id"]), row)
    pairs = split_pairs([row["source"] for row in rows.values()], [row["data"] for row in rows.values()])
    for raters in ("majority", "any_rater"):
        truth = np.array([row[f"has_omission_error_by_{raters}"] for row in rows.values()])
        print(f"{split}: omissions by {raters} in {int(truth.sum())} of {len(truth)} sentences")
        for name in ("combined", "length"):
            scores = build_detector(name, model).detect(pairs)
            found = np.array([one.sentence["omission"] for one in scores])
            print(f"{name}: AUROC {auroc(truth, found):.3f}", flush=True)


def judgments(data: Path, split: str, directory: Path | None) -> None:
    """Print how well the marked spans of both classes are distinguished."""
    model = train(mixed_text(data, ("en", "de")), directory)
    votes: dict[tuple, list[list[str]]] = {}
    for annotator in (1, 2):
        for line in read_lines(data / "coverage" / f"annotations.en-de.{annotator}.jsonl.gz"):
            row = json.loads(line)
            if row["split"] == split and row["coverage_error_type"] == "undertranslation":
                key = row["source"], row["data"], row["predicted_undertranslation_spans"]
                votes.setdefault(key, []).append(row["label"])
    # Hardly any span of dev was judged twice.
    needed = 2 if split == "test" else 1
    judged = {key: labels for key, labels in votes.items() if len(labels) >= needed}
    bad = [key for key, labels in judged.items() if all("UT-important-information" in one for one in labels)]
    good = [key for key, labels in judged.items() if all("good-translation" in one for one in labels)]
    keys = bad + good
    truth = np.arange(len(keys)) < len(bad)
    pairs = split_pairs([key[0] for key in keys], [key[1] for key in keys])
    print(f"{split}: {len(bad)} spans of important information, {len(good)} good translations")
    scores = build_detector("combined", model).detect(pairs)
    means, largest, whole = [], [], []
    for key, one in zip(keys, scores, strict=True):
        words = word_spans(key[0])
        spans = [tuple(map(int, span.split("-"))) for span in re.split(r" *[|,] *", key[2]) if span]
        inside = [any(first < end and start < last for start, end in spans) for first, last in words]
        values = one.words["omission"][np.array(inside)]
        means.append(values.mean() if len(values) else 0.0)
        largest.append(values.max(initial=0.0))
        whole.append(one.sentence["omission"])
    figures = ", ".join(
        f"{label} {auroc(truth, np.array(values)):.3f}"
        for label, values in (("mean of the span", means), ("maximum", largest), ("sentence", whole))
    )
    print(f"combined: AUROC {figures}", flush=True)
    report_raters(model, data, split)


def reliability_table(labels: np.ndarray, probabilities: np.ndarray) -> list[tuple[float, float, int]]:
    """Return for each tenth of the probabilities, [0, 0.1) to [0.9, 1], the reliability of its examples.

    Args:
        labels: Whether each example has the error, [N].
        probabilities: Its probability, [N].

    Returns:
        The mean probability, the share of errors and the number of examples of each tenth; NaN, NaN and 0
        without examples.
    """
    tenths = np.clip((10 * probabilities).astype(int), 0, 9)
    counts = np.bincount(tenths, minlength=10)
    with np.errstate(invalid="ignore"):
        means = (np.bincount(tenths, values, 10) / counts for values in (probabilities, labels))
        return list(zip(*(column.tolist() for column in (*means, counts)), strict=True))


def reliability(data: Path, directory: Path | None) -> None:
    """Print the reliability of each error in text of the training text's kind, an error in a twentieth."""
    pairs = read_pairs(data, "multi30k", "train")
    # The last pairs of this text are of another kind: they have longer captions.
    random.Random(SEED).shuffle(pairs)
    model = train(pairs[:-NUM_RELIABILITY_PAIRS], directory)
    unseen = pairs[-NUM_RELIABILITY_PAIRS:]
    links = find_links(model, unseen)
    kinds: dict[CoverageError, tuple[Corruption, ...]] = {
        "omission": ("deletion", "truncation"),
        "addition": ("insertion",),
        "repetition": ("repetition",),
    }
    for error, own in kinds.items():
        config = CorruptionConfig(kinds=own, rate=ERROR_RATE, seed=SEED)
        examples = corrupt_pairs(unseen, links, config)
        labels = np.array([one.kind is not None for one in examples])
        detector = build_detector("combined", model)
        scores = detector.detect([one.pair for one in examples])
        found = np.array([one.sentence[error] for one in scores])
        table = reliability_table(labels, found)
        print(f"{error}: {labels.mean():.3f} of the pairs, mean probability {found.mean():.3f}")
        for tenth, (predicted, observed, count) in enumerate(table):
            print(f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}: {predicted:.2f} {observed:.2f} {count}")


def main() -> None:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("comparison", choices=COMPARISONS)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--split", default=None)
    parser.add_argument("--model-dir", type=Path, help="where the model is kept for the next run")
    given = parser.parse_args()
    if given.comparison == "phrasebook":
        phrasebook()
        return
    if given.data is None:
        parser.error("DATA is required")
    if given.comparison == "synthetic":
        synthetic(given.data, given.split or "val", given.model_dir)
    elif given.comparison == "parliament":
        parliament(given.data, given.model_dir)
    elif given.comparison == "reliability":
        reliability(given.data, given.model_dir)
    elif given.comparison == "news":
        news(given.data, given.model_dir)
    else:
        judgments(given.data, given.split or "dev", given.model_dir)


if __name__ == "__main__":
    main()
