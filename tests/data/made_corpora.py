"""Small parallel corpora and tokenizer settings for the preprocessing tests."""

import random

from regard.config import from_dict
from regard.data.config import DataConfig

KINDS = {
    "words": {"kind": "words"},
    "moses": {"kind": "moses", "language": "de"},
    "bpe": {"kind": "bpe", "num_merges": 40},
    "sentencepiece": {"kind": "sentencepiece", "vocab_size": 330},
    "unigram": {
        "kind": "sentencepiece",
        "vocab_size": 330,
        "model_type": "unigram",
        "joint": False,
        "max_training_lines": 20,
    },
    "characters": {"kind": "characters"},
}
NOUNS = "Hund Katze Haus Baum Auto Vogel Fisch Tisch".split()
OBJECTS = "dog cat house tree car bird fish table".split()


def sentences(number, seed=0):
    """Return `number` German and English sentences that are word-by-word translations."""
    generator = random.Random(seed)
    picks = [[generator.randrange(8) for _ in range(generator.randint(1, 6))] for _ in range(number)]
    sources = ["Der " + " und der ".join(NOUNS[i] for i in pick) + "." for pick in picks]
    targets = ["The " + " and the ".join(OBJECTS[i] for i in pick) + "." for pick in picks]
    return sources, targets


def corpus(directory, name, sources, targets, **more):
    """Write a parallel corpus and return its table in the data configuration."""
    paths = {side: directory / f"{name}.{side}" for side in ("source", "target")}
    paths["source"].write_text("".join(f"{line}\n" for line in sources))
    paths["target"].write_text("".join(f"{line}\n" for line in targets))
    return {**{side: str(path) for side, path in paths.items()}, **more}


def configure(data, **more):
    return from_dict(DataConfig, {**data, **more})


def both(kind):
    """Return the tokenizer settings of both sides."""
    return {f"{side}_tokenizer": KINDS[kind] for side in ("source", "target")}


def stamp(prepared):
    """Return inode and modification time, which change if the data is prepared again."""
    return prepared.directory.stat().st_ino, (prepared.directory / "manifest.json").stat().st_mtime_ns
