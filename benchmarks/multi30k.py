"""Multi30k, German to English, as arrays of token ids that all systems of a comparison read.

`prepare` tokenizes the text (Moses rules, lowercased), counts words, and writes one `.npz` file: the
sentences of train, validation and test_2016_flickr as ids without begin and end symbols, both vocabularies,
and the training batches of several epochs. The vocabularies contain the words with a frequency of at least
2, 7.9k in German and 5.9k in English, as in most published results on this corpus. A training batch has 64
sentences of similar length: the corpus is shuffled and divided into pools of 100 batches, each pool is
sorted by target length and then source length, and the batches are shuffled. The batches depend on the seed
and are stored in the file, so that systems with different versions of NumPy get the same batches.

Reading requires only NumPy, so that the interpreter of every system can read the file. Preparing requires
sacremoses.
"""

import collections
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["BOS", "EOS", "PAD", "SPECIALS", "UNK", "Batch", "Multi30k", "prepare"]

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<blank>", "<unk>", "<s>", "</s>")

SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MIN_FREQUENCY = 2
BATCH_SENTENCES = 64
POOL_BATCHES = 100
EPOCHS = 8
FORMAT = 1


@dataclass(frozen=True)
class Batch:
    """A batch of sentences as lists of ids, without begin and end symbols.

    Attributes:
        indices: Position of each sentence in its split.
        source: The source sentences.
        target: The reference translations.
    """

    indices: list[int]
    source: list[list[int]]
    target: list[list[int]]

    @property
    def target_tokens(self) -> int:
        """The number of predicted tokens: the words and one end symbol per sentence, without padding."""
        return sum(len(sentence) + 1 for sentence in self.target)


class Multi30k:
    """The contents of a prepared file.

    Args:
        path: A file written by `prepare`.
    """

    def __init__(self, path: Path) -> None:
        """Read the file into memory."""
        with np.load(path) as arrays:
            self._arrays = {name: arrays[name] for name in arrays.files}
        self.source_words: list[str] = self._arrays["source_words"].tolist()
        self.target_words: list[str] = self._arrays["target_words"].tolist()
        self.test_references: list[str] = self._arrays["test_references"].tolist()

    def _sentences(self, split: str, side: str, indices: Sequence[int]) -> list[list[int]]:
        ids, starts = self._arrays[f"{split}_{side}"], self._arrays[f"{split}_{side}_starts"]
        return [ids[starts[i] : starts[i + 1]].tolist() for i in indices]

    def _batch(self, split: str, indices: Iterable[int]) -> Batch:
        chosen = [int(i) for i in indices]
        return Batch(
            chosen, self._sentences(split, "source", chosen), self._sentences(split, "target", chosen)
        )

    def train_batches(self, count: int) -> Iterator[Batch]:
        """Yield `count` training batches of 64 sentences: the largest of the first epoch, then all epochs.

        The largest batch is first and therefore part of the warm-up, so that the peak memory of a few steps
        equals that of a whole epoch.
        """
        epochs = self._arrays["train_batches"]  # (epochs, batches, 64)
        words = np.diff(self._arrays["train_source_starts"]) + np.diff(self._arrays["train_target_starts"])
        largest = epochs[0][words[epochs[0]].max(axis=1).argmax()]
        order = epochs.reshape(-1, BATCH_SENTENCES)
        for number in range(count):
            yield self._batch("train", order[(number - 1) % len(order)] if number else largest)

    def sorted_batches(self, split: str, size: int, limit: int | None = None) -> Iterator[Batch]:
        """Yield the first `limit` sentences of a split in batches of `size`, sorted by source length."""
        starts = self._arrays[f"{split}_source_starts"]
        lengths = np.diff(starts)[:limit]
        order = np.argsort(lengths, kind="stable").tolist()
        for start in range(0, len(order), size):
            yield self._batch(split, order[start : start + size])


def prepare(data: Path, cache: Path, seed: int = 1) -> Path:
    """Write the data file to `cache`, unless it exists for the same text and settings.

    Args:
        data: Directory with `train`, `val` and `test_2016_flickr`, each as `.de.gz` and `.en.gz`.
        cache: Output directory.
        seed: Seed of the training batches.

    Returns:
        The path of the `.npz` file.

    Raises:
        FileNotFoundError: A file of the corpus is missing in `data`.
        ValueError: The two files of a split have different numbers of lines.
    """
    raw = {
        (split, language): (data / f"{name}.{language}.gz").read_bytes()
        for split, name in SPLITS.items()
        for language in ("de", "en")
    }
    settings = {
        "format": FORMAT,
        "seed": seed,
        "min_frequency": MIN_FREQUENCY,
        "batch_sentences": BATCH_SENTENCES,
        "pool_batches": POOL_BATCHES,
        "epochs": EPOCHS,
        "text": [hashlib.sha256(content).hexdigest() for content in raw.values()],
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    path = cache / f"multi30k-{digest[:12]}.npz"
    if not path.exists():
        words = {key: _tokenize(content, key[1]) for key, content in raw.items()}
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **_arrays(words, seed))  # type: ignore[arg-type]
        unfinished.replace(path)
    return path


def _tokenize(content: bytes, language: str) -> list[list[str]]:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    lines = gzip.decompress(content).decode("utf-8").splitlines()
    return [[word.lower() for word in tokenizer.tokenize(line.strip(), escape=False)] for line in lines]


def _arrays(words: dict[tuple[str, str], list[list[str]]], seed: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for language, side in (("de", "source"), ("en", "target")):
        vocabulary = _vocabulary(words["train", language])
        number = {word: i for i, word in enumerate(vocabulary)}
        arrays[f"{side}_words"] = np.array(vocabulary)
        for split in SPLITS:
            sentences = words[split, language]
            if len(sentences) != len(words[split, "de"]):
                counts = f"{len(words[split, 'de'])} lines in German, {len(sentences)} in English"
                raise ValueError(
                    f"{SPLITS[split]}: {counts}: parallel files must have the same number of lines"
                )
            flat = [number.get(word, UNK) for sentence in sentences for word in sentence]
            arrays[f"{split}_{side}"] = np.array(flat, np.int32)
            arrays[f"{split}_{side}_starts"] = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    arrays["test_references"] = np.array([" ".join(sentence) for sentence in words["test", "en"]])
    arrays["train_batches"] = _order(
        np.diff(arrays["train_source_starts"]), np.diff(arrays["train_target_starts"]), seed
    )
    return arrays


def _vocabulary(sentences: list[list[str]]) -> list[str]:
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    kept = (word for word, count in counts.items() if count >= MIN_FREQUENCY and word not in SPECIALS)
    return [*SPECIALS, *sorted(kept, key=lambda word: (-counts[word], word))]


def _order(source_lengths: np.ndarray, target_lengths: np.ndarray, seed: int) -> np.ndarray:
    """Return sentence numbers of shape (epochs, batches, 64); incomplete batches of an epoch are dropped."""
    generator = np.random.default_rng(seed)
    pool = POOL_BATCHES * BATCH_SENTENCES
    epochs = []
    for _ in range(EPOCHS):
        shuffled = generator.permutation(len(source_lengths))
        batches = []
        for start in range(0, len(shuffled), pool):
            part = shuffled[start : start + pool]
            part = part[np.lexsort((source_lengths[part], target_lengths[part]))]
            whole = len(part) // BATCH_SENTENCES * BATCH_SENTENCES
            batches.extend(part[:whole].reshape(-1, BATCH_SENTENCES))
        epochs.append(np.stack(batches)[generator.permutation(len(batches))])
    return np.stack(epochs).astype(np.int32)
