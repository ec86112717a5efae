"""Results of training, translation, alignment and checks as arrays, to compare two versions of the package.

    python benchmarks/same_results.py write before.npz     # in a checkout of each version
    python benchmarks/same_results.py compare before.npz after.npz

`write` trains small models on Multi30k for 50 steps (a recurrent model with constrained sparsemax attention
and fertilities, a recurrent model with posterior attention, a convolutional model, Transformers with soft and
with hard attention), translates 60 sentences, scores their references, aligns 2,000 pairs and checks 60
translations. It uses the public API alone. `compare` prints the largest difference of each array and ends
with status 1 if one is above 1e-5.
"""

import argparse
import gzip
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import regard

DATA = Path("../shared/data/multi30k")
RNN = {"kind": "rnn", "embedding_size": 64, "encoder": {"hidden_size": 64}, "decoder": {"hidden_size": 64}}
TRANSFORMER = {"kind": "transformer", "d_model": 64, "num_heads": 4, "feed_forward": {"ffn_size": 128}}
MODELS: dict[str, dict[str, Any]] = {
    "constrained": {**RNN, "attention": {"kind": "constrained", "normalizer": "sparsemax"}},
    "posterior": {**RNN, "attention": {"kind": "posterior", "top_k": 6, "tail": "drop"}},
    "conv": {**RNN, "kind": "conv"},
    "transformer": TRANSFORMER,
    "hard": {**TRANSFORMER, "attention": {"kind": "hard"}},
}


def read(split: str, language: str, count: int) -> list[str]:
    """Return the first lines of a split of Multi30k."""
    with gzip.open(DATA / f"{split}.{language}.gz", "rt", encoding="utf-8") as file:
        return [line.strip().lower() for line in islice(file, count)]


def run_config(name: str) -> dict[str, Any]:
    """Return the configuration of the training of a model."""
    words = {"kind": "words"}
    config: dict[str, Any] = {
        "seed": 1,
        "data": {"source_tokenizer": words, "target_tokenizer": words},
        "model": MODELS[name],
        "training": {
            "batch_size": 32,
            "batch_unit": "sentences",
            "optimizer": {"kind": "adam", "learning_rate": 1e-3, "max_grad_norm": 0.5},
            "max_steps": 50,
        },
    }
    if name == "constrained":
        config["data"]["fertility"] = {"kind": "guided"}
    return config


def write(path: Path) -> None:
    """Write the results of this version of the package to a file."""
    sides = read("train", "de", 2000), read("train", "en", 2000)
    sources, references = read("val", "de", 60), read("val", "en", 60)
    train, valid = list(zip(*sides, strict=True)), list(zip(sources, references, strict=True))
    arrays: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            print(name, file=sys.stderr)
            directory = Path(folder, name)
            regard.train(run_config(name), directory, pairs={"train": train, "valid": valid})
            weights = load_file(directory / "model.safetensors")
            arrays |= {f"{name} weights {key}": array for key, array in weights.items()}
            model = regard.load(directory)
            translations = model.translate(sources, beam_size=4)
            arrays[f"{name} translations"] = np.array([translation.text for translation in translations])
            arrays[f"{name} scores"] = np.array([translation.score for translation in translations])
            scored = model.score(sources, references)
            arrays[f"{name} scores of references"] = np.array([translation.score for translation in scored])
    for kind in ("ibm2", "hmm", "bayes"):
        print(kind, file=sys.stderr)
        alignments = regard.align(*sides, kind)
        arrays[f"alignments {kind}"] = np.array([str(links.tolist()) for links in alignments.links])
    wrong = [*references[1:], references[0]]
    checked = regard.check(sources, wrong, training=sides)
    arrays["check"] = np.array([sentence.worst for sentence in checked.sentences])
    np.savez(path, **arrays)


def compare(before: Path, after: Path) -> bool:
    """Print the largest difference of each array; return whether all are at most 1e-5."""
    first, second = np.load(before), np.load(after)
    print("only in one file:", sorted(set(first) ^ set(second)) or "none")
    differences: dict[str, float] = {}
    for name in sorted(set(first) & set(second)):
        a, b = first[name], second[name]
        if a.dtype.kind == "U":
            difference = float(np.sum(a != b)) if a.shape == b.shape else np.inf
        else:
            difference = float(np.abs(a - b).max(initial=0)) if a.shape == b.shape else np.inf
        title = name.partition(" weights ")[0] + " weights" if " weights " in name else name
        differences[title] = max(differences.get(title, 0.0), difference)
    for title, difference in differences.items():
        print(f"{title:40} {difference:.3g}")
    return set(first) == set(second) and all(difference <= 1e-5 for difference in differences.values())


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["write", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(*arguments.files)
    elif not compare(*arguments.files):
        sys.exit(1)


if __name__ == "__main__":
    main()
