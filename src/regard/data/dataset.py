"""Preprocessed data: a directory of memory-mapped arrays for training.

`prepare_data` creates the directory from a `DataConfig` unless it exists and is up to date.
`PreparedData.open` opens an existing directory. A `DatasetSplit` provides examples and batches.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.alignment.corpus import Corpus, Text, WordList
from regard.data.arrays import ProgressCallback
from regard.data.batch import Batch, BatchConfig, make_batches
from regard.data.config import MANIFEST, DataConfig, describe_inputs, describe_settings, read_manifest
from regard.data.fertility import Budget
from regard.data.preprocessing import preprocess
from regard.data.text import TextProcessor
from regard.errors import ConfigError, DataError
from regard.text.array_files import check_offsets, check_range
from regard.text.files import remove_leftovers
from regard.text.paths import check_outputs
from regard.text.reading import file_digest, read_bytes

_log = logging.getLogger(__name__)


class DatasetSplit:
    """One split of preprocessed data: memory-mapped pairs of id sequences.

    Attributes:
        name: `train`, `valid` or `test`.
        text: Tokenizers and vocabularies.
        corpora: The entry of each corpus in the manifest: `name`, `pairs`, `kept`, `weight` and others.
        lines: [rows], the line number of each row, counted from 0 over all corpora in order.
        lengths: `source_lengths` and `target_lengths`.
        source_lengths: [rows], number of source tokens.
        target_lengths: [rows], number of target tokens, including `EOS`.
    """

    def __init__(self, data: "PreparedData", name: str) -> None:
        """Map the arrays of a split of preprocessed data."""
        directory, manifest = data.directory, data.manifest
        self.name, self.text, self._directory = name, data.text, directory
        self._fertilities = data.fertilities.get(name)
        self._files: Mapping[str, Mapping[str, Any]] = manifest["files"]
        self.corpora: list[dict[str, Any]] = manifest["splits"][name]["corpora"]
        self._source, source_offsets = _open_arrays(directory, f"{name}.source")
        self._target, target_offsets = _open_arrays(directory, f"{name}.target")
        self._source_offsets, self._target_offsets = source_offsets, target_offsets
        self.lines = np.asarray(np.memmap(directory / f"{name}.lines", dtype="<i8", mode="r"))
        self.lengths = self.source_lengths, self.target_lengths = (
            np.diff(source_offsets),
            np.diff(target_offsets),
        )

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source_lengths)

    def example(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the source ids and the target ids of a row, the target ids including `EOS`."""
        source = self._source[self._source_offsets[row] : self._source_offsets[row + 1]]
        target = self._target[self._target_offsets[row] : self._target_offsets[row + 1]]
        return source, target

    def batch(self, rows: Any) -> Batch:
        """Return rows as a padded batch."""
        examples = [self.example(int(row)) for row in rows]
        bounds = None
        if self._fertilities is not None:
            starts = self._source_offsets
            maxima = [self._fertilities[starts[row] : starts[row + 1]] for row in map(int, rows)]
            # Lower bounds (zero) and upper bounds on the attention of each source token.
            bounds = [np.stack([np.zeros_like(maximum), maximum], axis=-1) for maximum in maxima]
        sources, targets = ([example[side] for example in examples] for side in (0, 1))
        return self.text.batch(sources, targets, rows, bounds)

    def epoch_rows(self, seed: int, epoch: int) -> np.ndarray:
        """Return the rows of an epoch, with each corpus repeated according to its weight.

        With a weight of 2.5, each row of the corpus occurs twice, and a random half of the rows once more.
        The random choice is a function of seed and epoch.
        """
        chosen = []
        start = 0
        for number, corpus in enumerate(self.corpora):
            rows = np.arange(start, start + corpus["kept"])
            start += corpus["kept"]
            whole = int(corpus["weight"])
            random = np.random.default_rng([seed, epoch, number])
            extra = round((corpus["weight"] - whole) * len(rows))
            # The order does not matter here, since `make_batches` shuffles the rows.
            chosen += [rows] * whole + [np.sort(random.permutation(rows)[:extra])]
        return np.concatenate(chosen)

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch, with weighted corpora; see `make_batches`."""
        rows = self.epoch_rows(seed, epoch)
        positions = make_batches(self.source_lengths[rows], self.target_lengths[rows], config, seed, epoch)
        return [rows[batch] for batch in positions]

    def location(self, row: int) -> str:
        """Return the file and line number of a row, for messages."""
        line = int(self.lines[row])
        for corpus in self.corpora:
            if line < corpus["pairs"]:
                return f"{corpus['name']}: line {line + 1}"
            line -= corpus["pairs"]
        raise IndexError(row)

    def raw_lines(self) -> tuple[list[str], list[str]]:
        """Return the original source and target lines of all rows.

        Raises:
            DataError: for the training split, whose text is not stored; also if other data was written to
                the directory since it was opened.
        """
        if self.name == "train":
            raise DataError("the text of the training split is not stored with the preprocessed data")
        names = [f"{self.name}.{side}.txt" for side in ("source", "target")]
        sides = [read_bytes(self._directory / name) for name in names]
        for name, content in zip(names, sides, strict=True):
            # The text is read long after the arrays were mapped, and the directory may have been replaced.
            if hashlib.sha256(content).hexdigest() != self._files[name]["sha256"]:
                raise _replacement_error(self._directory)
        source, target = (side.decode().removesuffix("\n").split("\n") for side in sides)
        return source, target


def _replacement_error(directory: Path) -> DataError:
    return DataError(
        f"{directory}: other data was written to this directory in the meantime; use a separate "
        "data.cache_dir for each run with different data settings"
    )


def _open_arrays(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        tokens = np.memmap(directory / f"{name}.tokens", dtype="<i4", mode="r")
        offsets = np.memmap(directory / f"{name}.offsets", dtype="<i8", mode="r")
        check_offsets("offsets", np.asarray(offsets), len(offsets) - 1, len(tokens))
    except (OSError, ValueError, DataError) as error:
        raise DataError(
            f"{directory / name}: not arrays of preprocessed text: {error}; prepare again"
        ) from None
    # Convert to plain arrays, since slicing np.memmap is several times slower.
    return np.asarray(tokens), np.asarray(offsets)


@dataclass(frozen=True, eq=False)
class PreparedData:
    """An open directory of preprocessed data.

    Attributes:
        directory: The directory.
        text: Tokenizers and vocabularies.
        manifest: The content of the manifest.
        fertilities: The fertilities of the source tokens of a split, by its name, for splits that do not use
            `text.budget`.
    """

    directory: Path
    text: TextProcessor
    manifest: dict[str, Any]
    fertilities: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: Path | str) -> "PreparedData":
        """Open a directory that was written by `prepare_data`.

        Raises:
            DataError: if it does not contain preprocessed data, or a file is missing, truncated or altered.
        """
        directory = Path(directory)
        manifest = read_manifest(directory)
        return cls(directory, TextProcessor.load(directory), manifest)

    def verify(self) -> None:
        """Compare the content of each file with its checksum; `open` does not do this to save time.

        Raises:
            DataError: if a file was altered. The message names the file.
        """
        for name, about in self.manifest["files"].items():
            if file_digest(self.directory / name) != about["sha256"]:
                raise DataError(
                    f"{self.directory / name}: altered: its checksum differs from the one in {MANIFEST}; "
                    f"remove {self.directory} and prepare again"
                )

    @property
    def fingerprint(self) -> str:
        """The SHA-256 checksum of the training and validation data, in hexadecimal."""
        # The test set has no influence on the weights.
        files = {n: about for n, about in self.manifest["files"].items() if not n.startswith("test.")}
        return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the splits."""
        return iter(self.manifest["splits"])

    def split(self, name: str) -> DatasetSplit:
        """Return the split `train`, `valid` or `test`.

        Raises:
            DataError: if the split does not exist, or other data was written to the directory.
        """
        splits = self.manifest["splits"]
        if name not in splits:
            raise DataError(f"{self.directory}: no split {name!r}; available: {', '.join(splits)}")
        split = DatasetSplit(self, name)
        # The directory is replaced atomically. If the manifest is unchanged after the arrays were mapped,
        # the arrays belong to it.
        if read_manifest(self.directory)["files"] != self.manifest["files"]:
            raise _replacement_error(self.directory)
        return split

    def alignment_corpus(self, split: str = "train") -> Corpus:
        """Return a split for a word aligner, memory-mapped, so that texts larger than memory can be aligned.

        The words are the tokens of the vocabularies; all unknown tokens are one word. The end symbol of the
        target is removed.

        Raises:
            DataError: if the split does not exist, or if a pair has an empty side.
        """
        rows = self.split(split)
        texts = []
        for name, end in (("source", 0), ("target", 1)):
            tokens, offsets = _open_arrays(self.directory, f"{split}.{name}")
            # The target ends with an end symbol, the source does not.
            lengths = (np.diff(offsets) - end).astype(np.int32)
            if not lengths.all():
                raise DataError(f"{rows.location(int(np.argmin(lengths)))}: the {name} is empty")
            words = WordList(getattr(self.text, name).vocabulary.tokens)
            check_range(f"{self.directory / split}.{name}.tokens", tokens, 0, len(words) - 1)
            texts.append(Text(words, tokens, offsets[:-1].copy(), lengths))
        return Corpus(texts[0], texts[1])

    def with_budget(
        self, budget: Budget | None, fertilities: Mapping[str, np.ndarray] | None = None
    ) -> "PreparedData":
        """Return the same data with a budget of attention; see the attribute `fertilities`."""
        text = dataclasses.replace(self.text, budget=budget)
        return PreparedData(self.directory, text, self.manifest, fertilities or {})


def prepare_data(config: DataConfig, progress: ProgressCallback | None = None) -> PreparedData:
    """Preprocess the corpora of a configuration, or open existing data that is up to date.

    The data is preprocessed again only if the settings or the content of an input file have changed. The
    directory is written atomically.

    Args:
        config: Corpora, tokenizers, vocabularies, and the directory `cache_dir`.
        progress: Called with the name of a stage, the number of processed pairs and the total number.

    Raises:
        ConfigError: if the configuration has no `cache_dir`.
        UsageError: if an input is in the directory, which is replaced.
        DataError: if an input is missing or invalid, or the directory cannot be written.
    """
    output_dir = _cache_dir(config)
    target = output_dir.resolve()
    remove_leftovers(target.parent, target)
    wanted = describe_settings(config)
    inputs = describe_inputs(config)
    if (output_dir / MANIFEST).exists():
        try:
            manifest = read_manifest(output_dir)
            # The path of an input may change, but not its content.
            earlier, current = (
                {role: (about["size"], about["sha256"]) for role, about in files.items()}
                for files in (manifest["inputs"], inputs)
            )
            if manifest["wanted"] == wanted and earlier == current:
                return open_data(config)
        except DataError as error:
            _log.warning("%s; the data is preprocessed again", error)
    check_outputs([described["path"] for described in inputs.values()], directories=[output_dir])
    report = progress or (lambda stage, done, total: None)
    preprocess(config, output_dir, {"wanted": wanted, "inputs": inputs}, report)
    prepared = PreparedData.open(output_dir)
    _log_unknown_tokens(prepared.manifest["splits"])
    return prepared


def open_data(config: DataConfig) -> PreparedData:
    """Open the data that `prepare_data` has made for a configuration, in this or another process.

    Args:
        config: The configuration; its sampling weights are used, which do not affect the arrays.

    Raises:
        DataError: if the directory contains other data or none, or a file is missing or altered.
    """
    prepared = PreparedData.open(_cache_dir(config))
    if prepared.manifest["wanted"] != describe_settings(config):
        raise _replacement_error(prepared.directory)
    corpora = prepared.manifest["splits"]["train"]["corpora"]
    for corpus, corpus_config in zip(corpora, config.train, strict=True):
        # The manifest may have another weight, because weights are not part of `wanted`.
        corpus["weight"] = corpus_config.sampling_weight
    return prepared


def _log_unknown_tokens(splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Log the number and the percentage of unknown tokens of each split."""
    for name, split in splits.items():
        sides = [
            f"{about['unknown']:,} of {about['tokens']:,} {side} tokens are unknown "
            f"({100 * about['unknown'] / max(about['tokens'], 1):.2f} %)"
            for side, about in split["unknown"].items()
        ]
        level = (
            logging.WARNING if any(about["unknown"] for about in split["unknown"].values()) else logging.INFO
        )
        _log.log(level, "%s: %s", name, "; ".join(sides))


def _cache_dir(config: DataConfig) -> Path:
    """Return the directory of the preprocessed data.

    Raises:
        ConfigError: if there is none.
    """
    if config.cache_dir is None:
        raise ConfigError("data.cache_dir is not set: set it to a directory for the preprocessed data")
    return Path(config.cache_dir)
