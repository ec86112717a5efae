"""A word aligner of both directions, with its vocabularies: training, saving, loading and alignment.

The directory of an aligner contains `aligner.json` (settings and checksums), the words of each side, one per
line in the order of their numbers, and one file of arrays per direction. No file is unpickled.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.alignment.base import AlignerState, DirectionAligner, IterationStats, TrainingSetup
from regard.alignment.bayes import BayesAligner, train_bayes
from regard.alignment.bayes_sampler import BayesConfig
from regard.alignment.corpus import UNKNOWN, Corpus, WordList
from regard.alignment.hmm import HMMAligner, HMMConfig, train_hmm
from regard.alignment.ibm import IBM1Config, IBM2Config, IBMAligner, train_ibm1, train_ibm2
from regard.alignment.ibm3 import IBM3Aligner, IBM3Config, train_ibm3
from regard.alignment.ibm4 import IBM4Aligner, IBM4Config, train_ibm4
from regard.alignment.symmetrize import LinkTable, Method, symmetrize
from regard.config import TaggedUnion, configclass, option
from regard.errors import DataError
from regard.text.array_files import load_arrays
from regard.text.directories import atomic_directory, check_replaceable
from regard.text.reading import (
    Checksums,
    InvalidJsonError,
    checked_file,
    compute_checksums,
    read_bytes,
    read_json,
    verify_checksums,
)

__all__ = [
    "ALIGNER_CLASSES",
    "DEFAULT_ALIGNER",
    "DIRECTIONS",
    "MAX_LENGTH",
    "TRAINERS",
    "AlignerConfig",
    "WordAligner",
    "aligner_kinds",
    "default_config",
    "max_length",
    "train_both",
    "train_direction",
]

DIRECTIONS = ("forward", "backward")
ALIGNER_FILE = "aligner.json"
ALIGNER_FORMAT = 1
_MAX_LEXICAL_LINKS = 50
DEFAULT_ALIGNER = "bayes"

AlignerConfig = Annotated[
    IBM1Config | IBM2Config | IBM3Config | IBM4Config | HMMConfig | BayesConfig,
    TaggedUnion(DEFAULT_ALIGNER),
]

TRAINERS: dict[type[Any], Callable[[Corpus, Any, TrainingSetup], DirectionAligner]] = {
    IBM1Config: train_ibm1,
    IBM2Config: train_ibm2,
    IBM3Config: train_ibm3,
    IBM4Config: train_ibm4,
    HMMConfig: train_hmm,
    BayesConfig: train_bayes,
}

ALIGNER_CLASSES: dict[str, type[DirectionAligner]] = {
    aligner.kind: aligner for aligner in (IBMAligner, IBM3Aligner, IBM4Aligner, HMMAligner, BayesAligner)
}
"""The aligner classes by their names in files."""


MAX_LENGTH = 1_000
"""Maximum number of words of a side of a pair; longer pairs are not aligned."""
_MAX_LENGTHS = {"ibm3": 500, "ibm4": 200}
"""The same for models whose hill climbing compares O(n^2) alignments in each step, Model 4 in time O(n)."""


def max_length(kind: str) -> int:
    """Return the maximum number of words of a side of a pair that a kind of aligner aligns."""
    return _MAX_LENGTHS.get(kind, MAX_LENGTH)


def aligner_kinds() -> tuple[str, ...]:
    """Return the values of `kind` in a configuration."""
    # `kind` is a literal type with a single value.
    return tuple(get_args(get_type_hints(member)["kind"])[0] for member in TRAINERS)


def default_config(kind: str) -> AlignerConfig:
    """Return the default configuration of an aligner.

    Args:
        kind: One of `aligner_kinds()`.
    """
    return list(TRAINERS)[aligner_kinds().index(kind)]()


def train_direction(corpus: Corpus, config: AlignerConfig, setting: TrainingSetup) -> DirectionAligner:
    """Train an aligner that links the target words of a corpus to its source words.

    It is not trained on pairs with more words than `max_length`.
    """
    return TRAINERS[type(config)](corpus.without_long_pairs(max_length(config.kind)), config, setting)


@dataclass(frozen=True)
class WordAligner:
    """The aligners of one or both directions.

    Attributes:
        words: The source and the target words.
        forward: The aligner that links each target word to at most one source word.
        backward: The aligner that links each source word to at most one target word.
        lowercase: Whether the training text was lowercased.
    """

    words: tuple[WordList, WordList]
    forward: DirectionAligner | None
    backward: DirectionAligner | None
    lowercase: bool = False

    def alignable(self, corpus: Corpus) -> Corpus:
        """Return the corpus with empty pairs instead of those that are too long; see `max_length`."""
        kinds = (aligner.kind for aligner in (self.forward, self.backward) if aligner is not None)
        return corpus.without_long_pairs(min(map(max_length, kinds)))

    def align(self, corpus: Corpus, method: Method = "grow-diag-final-and", threads: int = 0) -> LinkTable:
        """Align the pairs of a corpus.

        Args:
            corpus: Pairs, numbered by `words`. A pair with more words than `max_length` gets no links.
            method: The symmetrization method.
            threads: Number of threads; 0 means all processors. It does not affect the links.

        Raises:
            DataError: if the method needs a direction that was not trained.
        """
        corpus = self.alignable(corpus)
        directions = []
        for name, text in zip(DIRECTIONS, (corpus, corpus.swapped()), strict=True):
            if method in DIRECTIONS and method != name:
                # The method does not use this direction.
                directions.append(np.full(int(text.target.lengths.sum()), -1, dtype=np.int32))
            else:
                directions.append(self._direction(name).align(text, threads))
        return symmetrize(corpus, directions[0], directions[1], method)

    def posteriors(
        self, corpus: Corpus, method: Method = "grow-diag-final-and", threads: int = 0
    ) -> Iterator[np.ndarray]:
        """Compute the probability of every link, of one direction or averaged over both.

        Args:
            corpus: Pairs, numbered by `words`.
            method: `forward` and `backward` select one direction; all other methods average the two.
            threads: Number of threads.

        Yields:
            For each pair, float32 [T, S]: zeros if it has more words than `max_length`.

        Raises:
            DataError: if the method needs a direction that was not trained.
        """
        shapes = zip(corpus.target.lengths.tolist(), corpus.source.lengths.tolist(), strict=True)
        short = self.alignable(corpus)
        for shape, links in zip(shapes, self._posteriors(short, method, threads), strict=True):
            yield links if links.shape == shape else np.zeros(shape, dtype=np.float32)

    def _posteriors(self, corpus: Corpus, method: Method, threads: int) -> Iterator[np.ndarray]:
        if method == "backward":
            yield from (
                links.T for links in self._direction("backward").posteriors(corpus.swapped(), threads)
            )
            return
        forward = self._direction("forward").posteriors(corpus, threads)
        if method == "forward":
            yield from forward
            return
        backward = self._direction("backward").posteriors(corpus.swapped(), threads)
        for forward_posteriors, other in zip(forward, backward, strict=True):
            yield (forward_posteriors + other.T) / 2

    def translations(self, word: str, count: int = 5) -> list[tuple[str, float]]:
        """Return the best translations of a source word in descending order of their scores.

        The score is the geometric mean of p(target | source) and p(source | target) in the lexical tables of
        the two directions. An unknown word has no translations.

        Args:
            word: The source word.
            count: Maximum number of translations.

        Raises:
            DataError: if a direction was not trained.
        """
        (number,) = self.words[0].numbers([word.lower() if self.lowercase else word])
        if number == UNKNOWN:
            return []
        forward, backward = self._lexical_rows["forward"], self._lexical_rows["backward"]
        pairs = [
            (self.words[1].words[target], float(np.sqrt(share * dict(backward(target)).get(number, 0.0))))
            for target, share in forward(number)
        ]
        return sorted((pair for pair in pairs if pair[1] > 0), key=lambda one: -one[1])[:count]

    @cached_property
    def _lexical_rows(self) -> dict[str, Callable[[int], list[tuple[int, float]]]]:
        """The lexical table of each direction: a function from a word to its most probable links."""
        return {name: _lexical_row(self._direction(name).state().arrays) for name in DIRECTIONS}

    def _direction(self, name: str) -> DirectionAligner:
        aligner: DirectionAligner | None = getattr(self, name)
        if aligner is None:
            raise DataError(
                f"this aligner has no {name} direction: train it with both directions, or use another method"
            )
        return aligner

    def save(self, directory: Path | str) -> None:
        """Save the aligner to a directory, atomically. An existing aligner is replaced.

        Raises:
            DataError: if the directory cannot be written, or contains something other than an aligner.
        """
        directory = Path(directory)
        self.check_output_dir(directory)
        try:
            with atomic_directory(directory) as temp_dir:
                for name, words in zip(("source", "target"), self.words, strict=True):
                    (temp_dir / f"{name}.words").write_bytes("\n".join(words.words).encode())
                directions: dict[str, Any] = {}
                for name in DIRECTIONS:
                    if (aligner := getattr(self, name)) is not None:
                        state = aligner.state()
                        directions[name] = {"kind": aligner.kind, "settings": state.settings}
                        arrays = {key: np.ascontiguousarray(value) for key, value in state.arrays.items()}
                        save_file(arrays, temp_dir / f"{name}.safetensors")
                digests = compute_checksums(temp_dir, sorted(path.name for path in temp_dir.iterdir()))
                description = {
                    "format": ALIGNER_FORMAT,
                    "lowercase": self.lowercase,
                    **directions,
                    "sha256": digests,
                }
                (temp_dir / ALIGNER_FILE).write_text(
                    json.dumps(description, indent=2) + "\n", encoding="utf-8"
                )
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{directory}: cannot be written: {reason}") from None

    @staticmethod
    def check_output_dir(directory: Path) -> None:
        """Check, before training, that an aligner may be saved to a directory.

        Raises:
            DataError: if the directory contains something other than an aligner.
        """
        check_replaceable(directory, ALIGNER_FILE, "an aligner")

    @classmethod
    def load(cls, directory: Path | str) -> "WordAligner":
        """Load an aligner that was saved with `save`.

        Raises:
            DataError: if a file is missing, truncated or modified. The message names it.
        """
        directory = Path(directory)
        try:
            description = read_json(checked_file(directory, ALIGNER_FILE), _AlignerDescription)
        except InvalidJsonError as error:
            raise DataError(
                f"{directory / ALIGNER_FILE}: not the description of an aligner: {error}"
            ) from None
        if description.format != ALIGNER_FORMAT:
            raise DataError(
                f"{directory / ALIGNER_FILE}: format {description.format!r} is not supported, expected "
                f"{ALIGNER_FORMAT}"
            )
        parts = {"forward": description.forward, "backward": description.backward}
        # Files that the description does not list must not be read.
        needed = [f"{side}.words" for side in ("source", "target")]
        needed += [f"{name}.safetensors" for name, part in parts.items() if part is not None]
        verify_checksums(directory, description.sha256, needed, ALIGNER_FILE)
        source, target = (_read_words(directory / f"{name}.words") for name in ("source", "target"))
        sizes = len(source), len(target)
        forward = _load(directory, "forward", description.forward, sizes)
        # The backward direction exchanges source and target.
        backward = _load(directory, "backward", description.backward, (sizes[1], sizes[0]))
        return cls((source, target), forward, backward, description.lowercase)


@configclass
class _DirectionDescription:
    """The description of one direction in `aligner.json`."""

    kind: Literal["ibm", "ibm3", "ibm4", "hmm", "bayes"] = option(help="Kind of the aligner.")
    settings: dict[str, bool | int | float | str] = option(help="Settings of the aligner.")


@configclass
class _AlignerDescription:
    """The content of `aligner.json`."""

    format: int = option(help="Version of the file format.")
    lowercase: bool = option(help="Whether the words are lowercased.")
    forward: _DirectionDescription | None = option(default=None, help="The aligner of target words.")
    backward: _DirectionDescription | None = option(default=None, help="The aligner of source words.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


def _read_words(path: Path) -> WordList:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start + 1}") from None
    return WordList(tuple(text.split("\n")) if text else ())


def _load(
    directory: Path, name: str, description: _DirectionDescription | None, sizes: tuple[int, int]
) -> DirectionAligner | None:
    if description is None:
        return None
    path = directory / f"{name}.safetensors"
    arrays = load_arrays(path)
    try:
        aligner = ALIGNER_CLASSES[description.kind].from_state(
            AlignerState(description.settings, arrays), sizes
        )
        for name in sorted(arrays.keys() - aligner.state().arrays.keys()):
            raise DataError(f"{name}: unknown")
        return aligner
    except KeyError as error:
        raise DataError(f"{path}: not the arrays of an aligner: {error} is missing") from None
    except (TypeError, ValueError, DataError) as error:
        # The first line: pydantic lists every error of the settings.
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: not the arrays of an aligner of these words: {reason}") from None


def _lexical_row(arrays: Mapping[str, np.ndarray]) -> Callable[[int], list[tuple[int, float]]]:
    """Return a function from a word to its most probable links, (word, probability).

    Args:
        arrays: Arrays of any aligner. `starts`, `columns` and `values` hold counts or probabilities by row.
    """
    starts, columns, values = (arrays[name] for name in ("starts", "columns", "values"))

    def row(number: int) -> list[tuple[int, float]]:
        row_slice = slice(int(starts[number]), int(starts[number + 1]))
        shares = values[row_slice] / max(float(values[row_slice].sum()), 1e-30)
        # Rows of frequent words are long, and their tails are errors of the aligner.
        best = np.argsort(-shares, kind="stable")[:_MAX_LEXICAL_LINKS]
        return [(int(columns[row_slice][i]), float(shares[i])) for i in best]

    return row


def train_both(
    corpus: Corpus,
    config: AlignerConfig,
    setting: TrainingSetup,
    lowercase: bool = False,
    directions: tuple[str, ...] = DIRECTIONS,
    report: Callable[[str, IterationStats], None] | None = None,
) -> WordAligner:
    """Train an aligner in one or both directions.

    Args:
        corpus: The pairs. Those with more words than `max_length` are left out.
        config: The configuration of the aligner.
        setting: Threads, seed and processes.
        lowercase: Whether the words of the corpus are lowercased; saved with the aligner.
        directions: The directions to train.
        report: Function called with the direction and the results of each pass, instead of `setting.report`.
    """
    corpus = corpus.without_long_pairs(max_length(config.kind))
    aligners: dict[str, DirectionAligner | None] = dict.fromkeys(DIRECTIONS)
    for name, text in zip(DIRECTIONS, (corpus, corpus.swapped()), strict=True):
        if name in directions:
            callback = setting.report if report is None else _named(report, name)
            aligners[name] = train_direction(text, config, replace(setting, report=callback))
    words = (corpus.source.words, corpus.target.words)
    return WordAligner(words, aligners["forward"], aligners["backward"], lowercase)


def _named(report: Callable[[str, IterationStats], None], name: str) -> Callable[[IterationStats], None]:
    return lambda iteration: report(name, iteration)
