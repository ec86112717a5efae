"""Prepared data: the folder of memory-mapped arrays that training reads, and how it is made.

`prepare` makes the folder from a `DataConfig`, or finds that it is there and current; `Prepared.open` opens
it, a `Split` hands out examples and batches.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batch import Batch, BatchConfig, batches
from regard.data.building import build
from regard.data.checks import check_offsets
from regard.data.corpus import DataConfig
from regard.data.fertility import Budget
from regard.data.files import read_bytes
from regard.data.manifest import describe_inputs, describe_settings, is_current, read_manifest, verify
from regard.data.partial import remove_leftovers_of
from regard.data.text import TextPair
from regard.data.units import Progress
from regard.data.unknown import report_unknown
from regard.errors import ConfigError, DataError

__all__ = ["Prepared", "Split", "prepare"]

_log = logging.getLogger(__name__)


class Split:
    """One split of prepared data: pairs of id sequences, memory-mapped.

    Attributes:
        name: `train`, `valid` or `test`.
        text: How its two sides are written.
        source_lengths: The number of source tokens of each row.
        target_lengths: The number of target tokens of each row, `EOS` included.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        about: dict[str, Any],
        text: TextPair,
        fertilities: np.ndarray | None = None,
        files: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Map the arrays of a split.

        Args:
            folder: Where they are.
            name: The split's name.
            about: Its part of the manifest.
            text: How its two sides are written.
            fertilities: What each of its source tokens may receive; none: what the text's budget says.
            files: What the manifest tells of the folder's files.
        """
        self._files = files or {}
        self.name = name
        self._fertilities = fertilities
        self.text = text
        self._folder = folder
        self._corpora: list[dict[str, Any]] = about["corpora"]
        self._source, source_offsets = _arrays(folder, f"{name}.source")
        self._target, target_offsets = _arrays(folder, f"{name}.target")
        self._source_offsets, self._target_offsets = source_offsets, target_offsets
        self._lines = np.memmap(folder / f"{name}.lines", dtype="<i8", mode="r")
        self.source_lengths = np.diff(source_offsets)
        self.target_lengths = np.diff(target_offsets)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.source_lengths)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The source and target lengths of every row, the target's `EOS` included."""
        return self.source_lengths, self.target_lengths

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each id occurs in the source and in the target text, ends of sentences included."""
        sides = (self._source, self.text.source), (self._target, self.text.target)
        source, target = (np.bincount(ids, minlength=len(side.vocabulary)) for ids, side in sides)
        return source, target

    @property
    def corpora(self) -> list[dict[str, Any]]:
        """What the manifest says of each corpus: `name`, `pairs`, `kept`, `weight`..."""
        return self._corpora

    @property
    def lines(self) -> np.ndarray:
        """The line each row comes from, counted from 0 over the corpora one after the other."""
        return np.asarray(self._lines)

    def example(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The source ids and the target ids, `EOS` included, of a row."""
        source = self._source[self._source_offsets[row] : self._source_offsets[row + 1]]
        target = self._target[self._target_offsets[row] : self._target_offsets[row + 1]]
        return source, target

    def batch(self, rows: Any) -> Batch:
        """The rows as a padded batch."""
        examples = [self.example(int(row)) for row in rows]
        given = None if self._fertilities is None else [self._bounds(int(row)) for row in rows]
        sources, targets = ([example[side] for example in examples] for side in (0, 1))
        return self.text.batch(sources, targets, rows, given)

    def _bounds(self, row: int) -> np.ndarray:
        """The least, 0, and the most that each source token of a row may receive."""
        assert self._fertilities is not None
        most = self._fertilities[self._source_offsets[row] : self._source_offsets[row + 1]]
        return np.stack([np.zeros_like(most), most], axis=-1)

    def epoch(self, seed: int, epoch: int) -> np.ndarray:
        """The rows of an epoch, in order, each corpus as often as its weight says.

        A weight of 2.5 gives every row of its corpus twice, and a random half of them once more: a
        function of seed and epoch.
        """
        chosen = []
        start = 0
        for number, corpus in enumerate(self._corpora):
            rows = np.arange(start, start + corpus["kept"])
            start += corpus["kept"]
            whole = int(corpus["weight"])
            random = np.random.default_rng([seed, epoch, number])
            extra = round((corpus["weight"] - whole) * len(rows))
            chosen += [rows] * whole + [np.sort(random.permutation(rows)[:extra])]
        return np.concatenate(chosen)

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch, in order, corpora by their weights: see `batch.batches`."""
        rows = self.epoch(seed, epoch)
        made = batches(self.source_lengths[rows], self.target_lengths[rows], config, seed, epoch)
        return [rows[batch] for batch in made]

    def where(self, row: int) -> str:
        """The file and line a row comes from, for messages."""
        line = int(self._lines[row])
        for corpus in self._corpora:
            if line < corpus["pairs"]:
                return f"{corpus['name']}: line {line + 1}"
            line -= corpus["pairs"]
        raise IndexError(row)

    def raw(self) -> tuple[list[str], list[str]]:
        """The source and target lines of every row as they stood in the files.

        Raises:
            DataError: for the training split, whose text is not kept; or if other data was prepared into the
                folder since it was opened.
        """
        if self.name == "train":
            raise DataError("the text of the training split is not kept with the prepared data")
        names = [f"{self.name}.{side}.txt" for side in ("source", "target")]
        sides = [read_bytes(self._folder / name) for name in names]
        for name, content in zip(names, sides, strict=True):
            if hashlib.sha256(content).hexdigest() != self._files[name]["sha256"]:
                raise _replaced(self._folder)
        source, target = (side.decode().removesuffix("\n").split("\n") for side in sides)
        return source, target


def _replaced(folder: Path) -> DataError:
    return DataError(
        f"{folder}: other data was prepared into it meanwhile; give each run with other data settings a "
        "data.folder of its own"
    )


def _arrays(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        tokens = np.memmap(folder / f"{name}.tokens", dtype="<i4", mode="r")
        offsets = np.memmap(folder / f"{name}.offsets", dtype="<i8", mode="r")
        check_offsets("offsets", np.asarray(offsets), len(offsets) - 1, len(tokens))
    except (OSError, ValueError, DataError) as error:
        raise DataError(f"{folder / name}: not the arrays of prepared text: {error}; prepare again") from None
    # As plain arrays: slicing the subclass takes several times as long.
    return np.asarray(tokens), np.asarray(offsets)


class Prepared:
    """An opened folder of prepared data.

    Attributes:
        folder: Where it is.
        text: Tokenizers and vocabularies.
        manifest: What it was made from and what it holds.
        fertilities: By the name of a split what each of its source tokens may receive, where that is not
            what `text.budget` says.
    """

    def __init__(
        self,
        folder: Path,
        text: TextPair,
        manifest: dict[str, Any],
        fertilities: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Put together what `open` and `prepare` read."""
        self.folder = folder
        self.text = text
        self.manifest = manifest
        self.fertilities = {} if fertilities is None else fertilities

    @classmethod
    def open(cls, folder: Path | str) -> "Prepared":
        """Open a folder that `prepare` made.

        Raises:
            DataError: if it is not one, or a file is missing, truncated or altered; names the file.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        return cls(folder, TextPair.load(folder), manifest)

    def verify(self) -> None:
        """Compare the content of every file with its checksum, which `open` leaves out for the time it takes.

        Raises:
            DataError: if a file was altered; names it.
        """
        verify(self.folder, self.manifest)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of what is trained and validated on, in hexadecimal."""
        files = {n: about for n, about in self.manifest["files"].items() if not n.startswith("test.")}
        return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        """The names of the splits."""
        return iter(self.manifest["splits"])

    def split(self, name: str) -> Split:
        """The split `train`, `valid` or, where there is one, `test`.

        Raises:
            DataError: if there is no such split, or other data was prepared into the folder meanwhile.
        """
        splits = self.manifest["splits"]
        if name not in splits:
            raise DataError(f"{self.folder}: no split {name!r}; there are {', '.join(splits)}")
        fertilities, files = self.fertilities.get(name), self.manifest["files"]
        split = Split(self.folder, name, splits[name], self.text, fertilities, files)
        # The folder is exchanged at once: arrays that are mapped while the manifest stays are the manifest's.
        if read_manifest(self.folder)["files"] != files:
            raise _replaced(self.folder)
        return split

    def within(
        self, budget: Budget | None, fertilities: Mapping[str, np.ndarray] | None = None
    ) -> "Prepared":
        """The same data, its source tokens with a budget of attention; see the attribute `fertilities`."""
        text = dataclasses.replace(self.text, budget=budget)
        return Prepared(self.folder, text, self.manifest, fertilities)


def prepare(
    config: DataConfig,
    folder: Path | str | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
) -> Prepared:
    """Tokenise, count and store the text of a configuration, or open what is stored already.

    It is done again only when the settings, a tokenizer's library or the content of an input file changed.
    The folder appears whole or not at all.

    Args:
        config: Corpora, tokenizers, vocabularies.
        folder: Where to keep it; `config.folder` by default.
        progress: Called with a stage's name, the pairs done in it and how many there are.
        processes: How many tokenise; by default as many as there are processors, fewer for little text.
            The result does not depend on it.

    Raises:
        DataError: if an input is missing or broken, or the folder cannot be written.
    """
    chosen = config.folder if folder is None else folder
    if chosen is None:
        raise ConfigError("data.folder is not set: where shall the prepared arrays be kept?")
    folder = Path(chosen)
    remove_leftovers_of(folder)
    wanted = describe_settings(config)
    manifest = _known(folder)
    inputs = describe_inputs(config, None if manifest is None else manifest["inputs"])
    if manifest is not None and is_current(manifest, wanted, inputs):
        weights = [corpus.weight for corpus in config.train]
        for corpus, weight in zip(manifest["splits"]["train"]["corpora"], weights, strict=True):
            corpus["weight"] = weight
        try:
            prepared = Prepared(folder, TextPair.load(folder), manifest)
        except DataError as error:
            _log.warning("%s; preparing again", error)
        else:
            report_unknown(manifest["splits"])
            return prepared
    build(config, folder, {"wanted": wanted, "inputs": inputs}, progress or _silent, processes)
    prepared = Prepared.open(folder)
    report_unknown(prepared.manifest["splits"])
    return prepared


def _silent(stage: str, done: int, total: int | None) -> None:
    pass


def _known(folder: Path) -> dict[str, Any] | None:
    if not (folder / "manifest.json").exists():
        return None
    try:
        return read_manifest(folder)
    except DataError as error:
        _log.warning("%s", error)
        return None
