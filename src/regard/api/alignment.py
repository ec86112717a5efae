"""Word alignment from Python: `regard.align` and `Aligner`.

aligner = regard.Aligner.train(sources, targets)
aligner.align(["das Haus ist klein"], ["the house is small"])[0]  # rows (source word, target word)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast, overload

import numpy as np

from regard.alignment import (
    AlignerConfig,
    Corpus,
    IterationStats,
    TrainingSetup,
    WordAligner,
    train_both,
)
from regard.alignment.base import ALIGNERS, DEFAULT_ALIGNER, default_config
from regard.alignment.symmetrize import METHODS, Method
from regard.alignment.word_aligner import DIRECTIONS
from regard.api.arguments import TextSource, read_parallel
from regard.config import from_dict
from regard.config.results import Result
from regard.errors import UsageError
from regard.text.words import split_whitespace

__all__ = ["Aligner", "AlignmentStatistics", "Alignments", "align", "aligner_config", "fold_words"]


@dataclass(frozen=True)
class Alignments(Result, Sequence[np.ndarray]):
    """Word links of sentence pairs: a sequence of int64 arrays [L, 2] with rows (source word, target word).

    Words are counted from 0. The rows are sorted by source word, then by target word.

    Attributes:
        links: The links of each pair.
        sources: The source words of each pair.
        targets: The target words of each pair.
    """

    schema = "alignments"
    links: tuple[np.ndarray, ...]
    sources: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.links)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, index: slice) -> "Alignments": ...

    def __getitem__(self, index: int | slice) -> "np.ndarray | Alignments":
        """Return the links of a pair, or the alignments of several pairs."""
        if isinstance(index, slice):
            return Alignments(self.links[index], self.sources[index], self.targets[index])
        return self.links[index]

    def lines(self) -> Iterator[str]:
        """Yield the links of each pair in Pharaoh format: `0-0 1-2`."""
        for links in self.links:
            yield " ".join(f"{i}-{j}" for i, j in links.tolist())

    def fertilities(self) -> list[np.ndarray]:
        """Return the number of links of each source word, one int64 array [S] per pair."""
        # Without `minlength`, words without links at the end of a sentence would be missing.
        return [
            np.bincount(links[:, 0], minlength=len(words))
            for links, words in zip(self.links, self.sources, strict=True)
        ]

    def to_data(self) -> dict[str, Any]:
        """Return the words and the links of each pair."""
        pairs = [
            {"source": list(source), "target": list(target), "links": links.tolist()}
            for links, source, target in zip(self.links, self.sources, self.targets, strict=True)
        ]
        return {"pairs": pairs}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per link: pair (from 0), source and target position, source and target word."""
        return [
            {
                "pair": number,
                "source": i,
                "target": j,
                "source_word": self.sources[number][i],
                "target_word": self.targets[number][j],
            }
            for number, links in enumerate(self.links)
            for i, j in links.tolist()
        ]

    def __repr__(self) -> str:
        """Return the numbers of pairs and links."""
        return f"Alignments({len(self)} pairs, {sum(map(len, self.links))} links)"


@dataclass(frozen=True, repr=False)
class AlignmentStatistics(Result):
    """Statistics of an alignment by `regard align`.

    Attributes:
        num_pairs: Number of aligned sentence pairs.
        passes: The passes of training in order; see `Aligner.passes`. None for a trained aligner.
    """

    schema = "alignment_statistics"
    num_pairs: int
    passes: tuple[Mapping[str, Any], ...]

    def to_data(self) -> dict[str, Any]:
        """Return the number of pairs, and the passes."""
        return {"num_pairs": self.num_pairs, "passes": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pass."""
        return [dict(row) for row in self.passes]

    def __repr__(self) -> str:
        """Return the numbers of pairs and passes."""
        return f"AlignmentStatistics({self.num_pairs} pairs, {len(self.passes)} passes)"


@dataclass(frozen=True)
class Aligner:
    """A trained word aligner of both directions.

    Attributes:
        model: The aligners of the two directions, and their words.
        num_threads: Number of threads. 0 uses all processors. The links do not depend on it.
        passes: The passes over the text during training: `direction`, `stage`, `pass` (from 1), `perplexity`
            per target word (if it is known), and statistics of the aligner. Empty for a loaded aligner.
    """

    model: WordAligner
    num_threads: int = 0
    passes: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def train(
        cls,
        sources: TextSource,
        targets: TextSource,
        kind: str = DEFAULT_ALIGNER,
        *,
        lowercase: bool = False,
        seed: int = 1,
        num_threads: int = 0,
        **options: Any,
    ) -> Self:
        """Train an aligner on sentence pairs, whose words are separated by ASCII white space.

        Args:
            sources: The source sentences, or a file.
            targets: Their translations, or a file.
            kind: The aligner: `ibm1`, `ibm2`, `hmm`, `bayes`, or a registered one.
            lowercase: Whether to ignore case.
            seed: Random seed.
            num_threads: Number of threads. 0 uses all processors.
            options: Options of the aligner, such as `iterations`; `regard config model.aligner` lists them.

        Raises:
            DataError: if a file cannot be read, the numbers of sentences differ, or a sentence is empty;
                names it.
            UsageError: if there is no such aligner.
            ConfigError: if an option is wrong; names it.
        """
        config = aligner_config(kind, options)
        corpus = Corpus.from_tokens(_split_pairs(sources, targets, lowercase), names=("sources", "targets"))
        setup = TrainingSetup(num_threads=num_threads, seed=seed)
        return cls.train_corpus(corpus, config, setup, lowercase)

    @classmethod
    def train_corpus(
        cls,
        corpus: Corpus,
        config: AlignerConfig,
        setup: TrainingSetup,
        lowercase: bool = False,
        directions: tuple[str, ...] = DIRECTIONS,
        on_pass: Callable[[str, IterationStats], None] = lambda direction, iteration: None,
    ) -> Self:
        """Train an aligner on a corpus, which may be larger than memory; see `train_both`.

        Args:
            corpus: The sentence pairs.
            config: The configuration of the aligner.
            setup: Threads, seed and processes.
            lowercase: Whether the words of the corpus are lowercased.
            directions: The directions to train.
            on_pass: Function called with the direction and the results of each pass.
        """
        passes: list[dict[str, Any]] = []

        def report(direction: str, iteration: IterationStats) -> None:
            part = {"direction": direction, "stage": iteration.stage, "pass": iteration.iteration}
            passes.append(part | iteration.values())
            on_pass(direction, iteration)

        model = train_both(corpus, config, setup, lowercase, directions, report)
        return cls(model, setup.num_threads, tuple(passes))

    @classmethod
    def load(cls, directory: Path | str, num_threads: int = 0) -> Self:
        """Load an aligner that was written by `save` or `regard align --save`.

        Raises:
            DataError: if the directory does not contain an aligner, or is damaged.
        """
        return cls(WordAligner.load(directory), num_threads)

    def save(self, directory: Path | str) -> None:
        """Save the aligner to a directory, atomically.

        Raises:
            DataError: if the directory exists and does not contain an aligner, or cannot be written.
        """
        self.model.save(directory)

    def align(
        self, sources: TextSource, targets: TextSource, symmetrize: str = "grow-diag-final-and"
    ) -> Alignments:
        """Align sentence pairs, which may be other ones than those of training.

        Args:
            sources: The source sentences, or a file.
            targets: Their translations, or a file. A pair with an empty side has no links.
            symmetrize: Combination of the two directions: `intersection`, `union`, `grow-diag`,
                `grow-diag-final`, `grow-diag-final-and`, or one direction: `forward`, `backward`.

        Raises:
            DataError: if a file cannot be read, or the numbers of sentences differ.
            UsageError: if there is no such method.
        """
        method = _method(symmetrize)
        pairs, corpus = self._corpus(sources, targets)
        link_sets = self.model.align(corpus, method, self.num_threads)
        # Links are a set, so they are sorted. `reshape` gives an empty list of links two columns, too.
        links = tuple(np.array(sorted(link_set), dtype=np.int64).reshape(-1, 2) for link_set in link_sets)
        return Alignments(links, tuple(tuple(s) for s, _ in pairs), tuple(tuple(t) for _, t in pairs))

    def posteriors(
        self, sources: TextSource, targets: TextSource, symmetrize: str = "grow-diag-final-and"
    ) -> list[np.ndarray]:
        """Return the posterior probability of every link, one float32 array [S, T] per pair.

        Args:
            sources: The source sentences, or a file.
            targets: Their translations, or a file.
            symmetrize: `forward` or `backward` for the posteriors of one direction. Any other value gives the
                mean of both. With `forward`, the column of a target word sums to 1 minus the probability that
                it has no source word.

        Raises:
            DataError: if a file cannot be read, or the numbers of sentences differ.
            UsageError: if there is no such method.
        """
        method = _method(symmetrize)
        _, corpus = self._corpus(sources, targets)
        # The aligner has one row per target word. The copy has the usual memory order of an [S, T] array.
        return [links.T.copy() for links in self.model.posteriors(corpus, method, self.num_threads)]

    def _corpus(
        self, sources: TextSource, targets: TextSource
    ) -> tuple[list[tuple[list[str], list[str]]], Corpus]:
        """Return the words of each pair, and the pairs in the numbers of the aligner's words."""
        # The result shows the words as given. Only the words for the aligner's vocabulary are lowercased.
        pairs = _split_pairs(sources, targets, lowercase=False)
        words = [(fold_words(s, self.model.lowercase), fold_words(t, self.model.lowercase)) for s, t in pairs]
        return pairs, Corpus.from_tokens(words, self.model.words, allow_empty=True)


def align(
    sources: TextSource,
    targets: TextSource,
    kind: str = DEFAULT_ALIGNER,
    *,
    symmetrize: str = "grow-diag-final-and",
    **options: Any,
) -> Alignments:
    """Train an aligner on sentence pairs and align them; see `Aligner.train` and `Aligner.align`."""
    # The texts are used twice, but an iterator can be read only once.
    sources, targets = read_parallel(sources, targets, ("sources", "targets"))
    return Aligner.train(sources, targets, kind, **options).align(sources, targets, symmetrize)


def aligner_config(
    kind: str, options: Mapping[str, Any], argument: str = "kind", origin: str = "aligner"
) -> AlignerConfig:
    """Return the configuration of an aligner.

    Args:
        kind: The aligner: `ibm1`, `ibm2`, `hmm`, `bayes`, or a registered one.
        options: Its options by name.
        argument: Name of the argument `kind`, for messages.
        origin: Name of the options, for messages.

    Raises:
        UsageError: if there is no such aligner.
        ConfigError: if an option is wrong; names it.
    """
    if kind not in ALIGNERS.names():
        raise UsageError(f"{argument} {kind!r}: expected one of {', '.join(ALIGNERS.names())}")
    return from_dict(type(default_config(kind)), dict(options), origin=origin)


def _method(name: str) -> Method:
    """Return the symmetrization method with a name, after checking that there is one."""
    if name not in METHODS:
        raise UsageError(f"symmetrize={name!r}: expected one of {', '.join(METHODS)}")
    return cast(Method, name)


def _split_pairs(
    sources: TextSource, targets: TextSource, lowercase: bool
) -> list[tuple[list[str], list[str]]]:
    """Return the words of each pair."""
    sides = read_parallel(sources, targets, ("sources", "targets"))
    words = [[fold_words(split_whitespace(line), lowercase) for line in side] for side in sides]
    return list(zip(*words, strict=True))


def fold_words(words: list[str], lowercase: bool) -> list[str]:
    """Return the words, in lower case if requested."""
    return [word.lower() for word in words] if lowercase else words
