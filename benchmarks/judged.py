"""Coverage errors in translations that people judged: how well the checker ranks the sentences.

    python benchmarks/judged.py DATA [--half dev|test] [--checker DIR] [--encoder DIR]

DATA contains `judged`, `hansards`, `europarl20k` and `multi30k`. Web text (English to French) is checked
after training on 30,000 pairs of `hansards`; post-edits, talks and news (English to German) after training on
Europarl and 10,000 captions. DIR keeps both checkers for the next run. Each text has two halves: sites and
documents are divided by a hash of their names, post-edits by their files. Choices are made on `dev`; `test`
is for the choice made.

- web: a pair is `unrelated` if its label is "incorrect alignment"; valid and free translations are the other
  pairs.
- postedits: an omission is an inserted word of at least four letters with no deleted word next to it, an
  addition a deleted one with no inserted word next to it.
- talks, news: a translation has an error if a rater marked `Accuracy/Omission` or `Accuracy/Addition`.

With an encoder, web text is checked by the detector `rules`, and also by the checker of English and German,
which is trained on 1,000 of the pairs.

The probabilities are compared with the plain ratio of the lengths in characters to their median ratio.
"""

import argparse
import csv
import gzip
import hashlib
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from coverage_quality import auroc, average_precision, mixed_text, read_lines

from regard.config.extensions import require_hook
from regard.extensions.check.base import Detector, SentenceError, WordPair, build_detector, split_pairs
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import load_coverage_model, save_coverage_model

MIN_LETTERS = 4


class Judged(NamedTuple):
    """A translation that was judged: the errors that it has, and those of which this is known."""

    source: str
    translation: str
    errors: frozenset[SentenceError]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a compressed table."""
    csv.field_size_limit(sys.maxsize)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def is_dev(name: str) -> bool:
    """Return whether a document or site belongs to the half `dev`."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def read_web(data: Path, half: str) -> dict[str, list[Judged]]:
    """Return the pairs of each release."""
    texts: dict[str, list[Judged]] = {}
    for row in rows(data / "judged" / "web" / "en-fr.tsv.gz"):
        if row["label"] in "VFA" and is_dev(row["site"]) == (half == "dev"):
            errors: set[SentenceError] = {"unrelated"} if row["label"] == "A" else set()
            pair = Judged(row["source"], row["target"], frozenset(errors))
            texts.setdefault(f"web {row['release']}", []).append(pair)
    return texts


def edits(translation: Sequence[str], post_edit: Sequence[str]) -> frozenset[SentenceError]:
    """Return the errors that a post-edit corrected."""
    errors: set[SentenceError] = set()
    for change, i1, i2, j1, j2 in SequenceMatcher(None, translation, post_edit, False).get_opcodes():
        # A replacement has words on both sides.
        if change == "insert" and any(len(word) >= MIN_LETTERS for word in post_edit[j1:j2]):
            errors.add("omission")
        if change == "delete" and any(len(word) >= MIN_LETTERS for word in translation[i1:i2]):
            errors.add("addition")
    return frozenset(errors)


def read_post_edits(data: Path, half: str) -> list[Judged]:
    """Return the post-edited translations, without those whose words only changed their place."""
    texts = []
    for part in ("train", "dev") if half == "dev" else ("test",):
        for row in rows(data / "judged" / "postedits" / f"en-de.{part}.tsv.gz"):
            translation, post_edit = row["translation"].split(), row["post_edit"].split()
            if sorted(translation) != sorted(post_edit) or translation == post_edit:
                texts.append(Judged(row["source"], row["translation"], edits(translation, post_edit)))
    return texts


def read_mqm(data: Path, name: str, half: str) -> list[Judged]:
    """Return the translations of all systems with the errors that any rater marked."""
    texts: dict[tuple[str, str, str], Judged] = {}
    for row in rows(data / "judged" / "mqm" / f"{name}.en-de.tsv.gz"):
        if is_dev(row["document"]) == (half == "dev"):
            clean = [row[side].replace("<v>", "").replace("</v>", "") for side in ("source", "translation")]
            key = row["document"], row["segment"], row["system"]
            errors: set[SentenceError] = set(texts[key].errors) if key in texts else set()
            if row["category"].startswith("Accuracy/Omission"):
                errors.add("omission")
            if row["category"].startswith("Accuracy/Addition"):
                errors.add("addition")
            texts[key] = Judged(clean[0], clean[1], frozenset(errors))
    return list(texts.values())


def report(name: str, texts: Sequence[Judged], detector: Detector) -> None:
    """Print the figures of each error in a text."""
    pairs = split_pairs([text.source for text in texts], [text.translation for text in texts])
    # A copy, because a detector may take the usual lengths from the first text.
    scores = copy(detector).detect(pairs)
    length = np.log([(len(text.translation) + 1) / (len(text.source) + 1) for text in texts])
    length -= np.median(length)
    signs: dict[SentenceError, np.ndarray] = {
        "omission": -length,
        "addition": length,
        "unrelated": np.abs(length),
    }
    for error, sign in signs.items():
        labels = np.array([error in text.errors for text in texts])
        if labels.any() and error in scores[0].sentence:
            print(f"{name}: {error} in {labels.sum()} of {len(labels)}")
            found = np.array([score.sentence[error] for score in scores])
            for what, values in (("checker", found), ("length", sign)):
                top = [labels[np.argsort(-values, kind="stable")[:count]].mean() for count in (50, 200)]
                figures = [auroc(labels, values), average_precision(labels, values), *top]
                print(f"  {what:8}", *(f"{100 * figure:6.1f}" for figure in figures), flush=True)


def checker(directory: Path | None, name: str, pairs: Sequence[WordPair], encoder: Any = None) -> Detector:
    """Return the checker of a language pair: a saved one, or one trained on a text."""
    if directory is not None and (directory / name).exists():
        return build_detector("combined", load_coverage_model(directory / name, encoder))
    model = ErrorModel.train(pairs, encoder=encoder)
    if directory is not None:
        save_coverage_model(model, directory / name)
    return build_detector("combined", model)


def read_checkers(data: Path, directory: Path | None, encoder: Any) -> tuple[Detector, Detector]:
    """Return the checkers of English with French and with German."""
    german = mixed_text(data, ("en", "de"))
    if encoder:
        rules = build_detector("rules")
        rules.encoder = encoder
        return rules, checker(directory, "encoder", german[:: len(german) // 1_000][:1_000], encoder)
    folder = data / "hansards"
    sides = [read_lines(folder / f"train-150k.{language}.gz")[:30_000] for language in ("en", "fr")]
    return checker(directory, "en-fr", split_pairs(*sides)), checker(directory, "en-de", german)


def main() -> None:
    """Print AUROC, average precision, and the precision at 50 and 200 in percent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=("dev", "test"), default="dev")
    parser.add_argument("--checker", type=Path, help="where the checkers are kept for the next run")
    parser.add_argument("--encoder", type=Path, help="directory of a multilingual encoder")
    options = parser.parse_args()
    data, half = options.data, options.half
    encoder = require_hook("text_encoder", "hf")(options.encoder) if options.encoder else None
    french, german = read_checkers(data, options.checker, encoder)
    for name, texts in read_web(data, half).items():
        report(name, texts, french)
        if encoder:
            report(f"{name}, checker of English and German", texts, german)
    report("post-edits", read_post_edits(data, half), german)
    report("talks", read_mqm(data, "talks", half), german)
    report("news", read_mqm(data, "news2023", half), german)


if __name__ == "__main__":
    main()
