"""A word aligner of both directions with its vocabularies, and the fertilities of aligned text.

The directory of an aligner contains `aligner.json` (settings and checksums), the words of each side, one per
line in the order of their numbers, and one file of arrays per direction. No file is unpickled.

Fertilities are the numbers of target words that source words are linked to. They are counted from the forward
direction, which links each target word to at most one source word.
GUIDED fertility (Malaviya et al., 2018, Section 4) is the maximum over the occurrences of a word in the
training text, and at least 1.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.alignment.base import (
    ALIGNERS,
    DEFAULT_ALIGNER,
    AlignerConfig,
    DirectionAligner,
    IterationStats,
    TrainingSetup,
    default_config,
    train_direction,
)
from regard.alignment.corpus import Corpus, WordList
from regard.alignment.symmetrize import LinkTable, Method, symmetrize
from regard.config import configclass, option, to_dict
from regard.errors import DataError
from regard.text.array_files import load_arrays
from regard.text.files import atomic_directory, check_replaceable
from regard.text.reading import (
    Checksums,
    checked_file,
    compute_checksums,
    read_bytes,
    read_expected_json,
    verify_checksums,
)

DIRECTIONS = ("forward", "backward")
ALIGNER_FILE = "aligner.json"
ALIGNER_FORMAT = 2


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
        """Return the corpus with empty pairs instead of those with more words than `max_length`."""
        aligners = (aligner for aligner in (self.forward, self.backward) if aligner is not None)
        return corpus.without_long_pairs(min(aligner.max_length for aligner in aligners))

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
        texts = {"forward": short, "backward": short.swapped()}
        names = [name for name in DIRECTIONS if method not in DIRECTIONS or method == name]
        posteriors = [self._direction(name).posteriors(texts[name], threads) for name in names]
        for shape, *parts in zip(shapes, *posteriors, strict=True):
            by_target = [p.T if name == "backward" else p for name, p in zip(names, parts, strict=True)]
            links = by_target[0] if len(names) == 1 else (by_target[0] + by_target[1]) / 2
            yield links if links.shape == shape else np.zeros(shape, dtype=np.float32)

    def cell_posteriors(
        self, corpus: Corpus, direction: Literal["forward", "backward"], threads: int = 0
    ) -> np.ndarray:
        """Compute the probability of every link of one direction for all pairs at once.

        Args:
            corpus: Pairs, numbered by `words`.
            direction: The direction.
            threads: Number of threads.

        Returns:
            float32, one value per cell; in a pair, the source word varies slowest. Zeros for a pair with more
            words than `max_length`.

        Raises:
            DataError: if the direction was not trained.
        """
        short = self.alignable(corpus)
        aligner = self._direction(direction)
        posteriors = aligner.cell_posteriors(short if direction == "forward" else short.swapped(), threads)
        if direction == "backward":
            # From rows of target words to rows of source words.
            sizes = short.num_cells
            start = np.repeat(np.cumsum(sizes) - sizes, sizes)
            source, target = np.divmod(np.arange(len(start)) - start, np.repeat(short.target.lengths, sizes))
            posteriors = posteriors[start + target * np.repeat(short.source.lengths, sizes) + source]
        values = np.zeros(int(corpus.num_cells.sum()), dtype=np.float32)
        values[np.repeat(short.num_cells == corpus.num_cells, corpus.num_cells)] = posteriors
        return values

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
        check_replaceable(directory, ALIGNER_FILE, "an aligner")
        try:
            with atomic_directory(directory) as temp_dir:
                for name, words in zip(("source", "target"), self.words, strict=True):
                    (temp_dir / f"{name}.words").write_bytes("\n".join(words.words).encode())
                directions: dict[str, Any] = {}
                for name in DIRECTIONS:
                    if (aligner := getattr(self, name)) is not None:
                        directions[name] = to_dict(aligner.config)
                        arrays = {key: np.ascontiguousarray(value) for key, value in aligner.arrays().items()}
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

    @classmethod
    def load(cls, directory: Path | str) -> "WordAligner":
        """Load an aligner that was saved with `save`.

        Raises:
            DataError: if a file is missing, truncated or modified. The message names it.
        """
        directory = Path(directory)
        path = checked_file(directory, ALIGNER_FILE)
        description = read_expected_json(path, _AlignerDescription, "the description of an aligner")
        if description.format != ALIGNER_FORMAT:
            raise DataError(
                f"{path}: format {description.format!r} is not supported, expected {ALIGNER_FORMAT}"
            )
        parts = {"forward": description.forward, "backward": description.backward}
        # Files that the description does not list must not be read.
        needed = [f"{side}.words" for side in ("source", "target")]
        needed += [f"{name}.safetensors" for name, part in parts.items() if part is not None]
        verify_checksums(directory, description.sha256, needed, ALIGNER_FILE)
        sides = []
        for name in ("source", "target"):
            try:
                text = read_bytes(directory / f"{name}.words").decode()
            except UnicodeDecodeError as error:
                raise DataError(f"{directory / name}.words: not UTF-8 at byte {error.start + 1}") from None
            sides.append(WordList(tuple(text.split("\n")) if text else ()))
        source, target = sides
        sizes = len(source.words), len(target.words)
        forward = _load(directory, "forward", description.forward, sizes)
        # The backward direction exchanges source and target.
        backward = _load(directory, "backward", description.backward, (sizes[1], sizes[0]))
        return cls((source, target), forward, backward, description.lowercase)


@configclass
class _AlignerDescription:
    """The content of `aligner.json`."""

    format: int = option(help="Version of the file format.")
    lowercase: bool = option(help="Whether the words are lowercased.")
    forward: AlignerConfig | None = option(default=None, help="The aligner of target words.")
    backward: AlignerConfig | None = option(default=None, help="The aligner of source words.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


def _load(
    directory: Path, name: str, config: AlignerConfig | None, sizes: tuple[int, int]
) -> DirectionAligner | None:
    if config is None:
        return None
    path = directory / f"{name}.safetensors"
    arrays = load_arrays(path)
    try:
        aligner = ALIGNERS.part_of(config).load(arrays, config, sizes)
        for name in sorted(arrays.keys() - aligner.arrays().keys()):
            raise DataError(f"{name}: unknown")
        return aligner
    except KeyError as error:
        raise DataError(f"{path}: not the arrays of an aligner: {error} is missing") from None
    except DataError as error:
        raise DataError(f"{path}: not the arrays of an aligner of these words: {error}") from None


def train_both(
    corpus: Corpus,
    config: AlignerConfig,
    setup: TrainingSetup,
    lowercase: bool = False,
    directions: tuple[str, ...] = DIRECTIONS,
    report: Callable[[str, IterationStats], None] | None = None,
) -> WordAligner:
    """Train an aligner in one or both directions.

    Args:
        corpus: The pairs. Those with more words than `max_length` are left out.
        config: The configuration of the aligner.
        setup: Threads, seed and processes.
        lowercase: Whether the words of the corpus are lowercased; saved with the aligner.
        directions: The directions to train.
        report: Function called with the direction and the results of each pass, instead of `setup.report`.
    """
    corpus = corpus.without_long_pairs(ALIGNERS.part_of(config).max_length)
    aligners: dict[str, DirectionAligner | None] = dict.fromkeys(DIRECTIONS)
    for name, text in zip(DIRECTIONS, (corpus, corpus.swapped()), strict=True):
        if name in directions:
            callback = setup.report if report is None else partial(report, name)
            aligners[name] = train_direction(text, config, replace(setup, report=callback))
    words = (corpus.source.words, corpus.target.words)
    return WordAligner(words, aligners["forward"], aligners["backward"], lowercase)


def count_fertilities(corpus: Corpus, links: np.ndarray) -> np.ndarray:
    """Return the number of target words that each source word is linked to.

    Args:
        corpus: The pairs.
        links: int [target tokens]: the position of each target word's source word in its sentence, -1 for
            none.

    Returns:
        int64 [source tokens], in the order of `corpus.source.offsets`.
    """
    # The offset of each target token's source sentence.
    begin = np.repeat(corpus.source.offsets[:-1], corpus.target.lengths)
    linked = links >= 0
    # Unlinked words have no source position, so that they are removed first.
    return np.bincount((begin + links)[linked], minlength=int(corpus.source.offsets[-1]))


def max_fertilities(corpus: Corpus, fertilities: np.ndarray) -> np.ndarray:
    """Return the largest fertility of each word of the source vocabulary, at least 1: float32 [words].

    `fertilities` are those of the source tokens, as `count_fertilities` returns them.
    """
    maxima = np.ones(len(corpus.source.words.words), dtype=np.int64)
    tokens = corpus.source.sentence_tokens
    known = tokens >= 0
    # `maximum.at` handles repeated indices, unlike indexing.
    np.maximum.at(maxima, tokens[known], fertilities[known])
    return maxima.astype(np.float32)


def align_fertilities(
    corpora: Sequence[Corpus], setting: TrainingSetup, config: AlignerConfig | None = None
) -> list[np.ndarray]:
    """Return the number of target words of each source word, for several texts.

    Args:
        corpora: The texts. An aligner is trained on the first one, and all use its numbers for words.
        setting: Threads, seed and processes.
        config: The aligner. Default: None, the default aligner.

    Returns:
        The result of `count_fertilities` for each text, 0 in pairs that are too long; see `max_length`.
    """
    chosen = default_config(DEFAULT_ALIGNER) if config is None else config
    aligner = train_direction(corpora[0], chosen, setting)
    counts = []
    for corpus in corpora:
        short = corpus.without_long_pairs(aligner.max_length)
        aligned = np.repeat(short.source.lengths == corpus.source.lengths, corpus.source.lengths)
        counts.append(np.zeros(len(aligned), dtype=np.int64))
        counts[-1][aligned] = count_fertilities(short, aligner.align(short, setting.num_threads))
    return counts
