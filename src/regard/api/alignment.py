"""Word alignment: `regard.align`, `Aligner`, files for `regard align`, and edit actions for `regard actions`.

aligner = regard.Aligner.train(sources, targets)
aligner.align(["das Haus ist klein"], ["the house is small"])[0]  # rows (source word, target word)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

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
from regard.alignment.pointer_actions import write_action_tables
from regard.alignment.symmetrize import METHODS, Method
from regard.alignment.word_aligner import ALIGNER_FILE, DIRECTIONS
from regard.api.arguments import NamedText, TextSource, corpus_files, read_parallel
from regard.config import apply_overrides, from_dict
from regard.config.results import Result, SequenceResult
from regard.errors import UsageError
from regard.text.compression import remove_suffix
from regard.text.corpus import CorpusConfig
from regard.text.files import check_replaceable
from regard.text.formats.base import FileOptions
from regard.text.paths import check_outputs
from regard.text.words import split_whitespace


@dataclass(frozen=True, repr=False)
class Alignments(SequenceResult[np.ndarray]):
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
        targets: TextSource | None = None,
        kind: str = DEFAULT_ALIGNER,
        *,
        file_options: FileOptions | None = None,
        lowercase: bool = False,
        seed: int = 1,
        num_threads: int = 0,
        **options: Any,
    ) -> Self:
        """Train an aligner on sentence pairs, whose words are separated by ASCII white space.

        Args:
            sources: The source sentences, or a file; without `targets`, a file with both sides.
            targets: Their translations, or a file.
            file_options: Format of a file with both sides.
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
        sides = read_parallel(sources, targets, options=file_options)
        corpus = Corpus.from_tokens(_split_pairs(sides, lowercase), names=("sources", "targets"))
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
        self,
        sources: TextSource,
        targets: TextSource | None = None,
        symmetrize: str = "grow-diag-final-and",
        file_options: FileOptions | None = None,
    ) -> Alignments:
        """Align sentence pairs, which may be other ones than those of training.

        Args:
            sources: The source sentences, or a file; without `targets`, a file with both sides.
            targets: Their translations, or a file. A pair with an empty side has no links.
            file_options: Format of a file with both sides.
            symmetrize: Combination of the two directions: `intersection`, `union`, `grow-diag`,
                `grow-diag-final`, `grow-diag-final-and`, or one direction: `forward`, `backward`.

        Raises:
            DataError: if a file cannot be read, or the numbers of sentences differ.
            UsageError: if there is no such method.
        """
        method = _method(symmetrize)
        sides = read_parallel(sources, targets, options=file_options)
        # The result shows the words as given. Only the words for the aligner's vocabulary are lowercased.
        pairs = _split_pairs(sides, self.model.lowercase)
        corpus = Corpus.from_tokens(pairs, self.model.words, allow_empty=True)
        link_sets = self.model.align(corpus, method, self.num_threads)
        # Links are a set, so they are sorted. `reshape` gives an empty list of links two columns, too.
        links = tuple(np.array(sorted(link_set), dtype=np.int64).reshape(-1, 2) for link_set in link_sets)
        words = [tuple(tuple(split_whitespace(line)) for line in side.lines) for side in sides]
        return Alignments(links, words[0], words[1])


def align(
    sources: TextSource,
    targets: TextSource | None = None,
    kind: str = DEFAULT_ALIGNER,
    *,
    file_options: FileOptions | None = None,
    symmetrize: str = "grow-diag-final-and",
    **options: Any,
) -> Alignments:
    """Train an aligner on sentence pairs and align them; see `Aligner.train` and `Aligner.align`."""
    # The texts are used twice, but an iterator can be read only once.
    source, target = read_parallel(sources, targets, options=file_options)
    aligner = Aligner.train(source.lines, target.lines, kind, **options)
    return aligner.align(source.lines, target.lines, symmetrize)


def aligner_config(kind: str, options: Mapping[str, Any], origin: str = "aligner") -> AlignerConfig:
    """Return the configuration of an aligner.

    Args:
        kind: The aligner: `ibm1`, `ibm2`, `hmm`, `bayes`, or a registered one.
        options: Its options by name.
        origin: Name of the options, for messages.

    Raises:
        UsageError: if there is no such aligner.
        ConfigError: if an option is wrong; names it.
    """
    if kind not in ALIGNERS.names():
        raise UsageError(f"no aligner {kind!r}: expected one of {', '.join(ALIGNERS.names())}")
    return from_dict(type(default_config(kind)), dict(options), origin=origin)


def _method(name: str) -> Method:
    """Return the symmetrization method with a name, after checking that there is one."""
    if name not in METHODS:
        raise UsageError(f"symmetrize={name!r}: expected one of {', '.join(METHODS)}")
    return cast(Method, name)


def _split_pairs(sides: Iterable[NamedText], lowercase: bool) -> list[tuple[list[str], ...]]:
    """Return the words of each pair."""
    words = ([split_whitespace(line.lower() if lowercase else line) for line in side.lines] for side in sides)
    return list(zip(*words, strict=True))


@dataclass(frozen=True, repr=False)
class AlignedFiles(Result):
    """The alignment of files by `regard align`.

    Attributes:
        num_pairs: Number of aligned sentence pairs.
        passes: The passes of training in order; see `Aligner.passes`. Empty for a trained aligner.
        lines: The links of each pair, which are computed when they are read. Not part of the JSON form.
    """

    schema = "alignment_statistics"
    num_pairs: int
    passes: tuple[Mapping[str, Any], ...]
    lines: Iterator[str] = field(compare=False)

    def to_data(self) -> dict[str, Any]:
        """Return the number of pairs, and the passes."""
        return {"num_pairs": self.num_pairs, "passes": [dict(row) for row in self.passes]}

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return one row per pass."""
        return self.passes


def align_files(
    source: Path | str,
    target: Path | str | None = None,
    *,
    file_options: FileOptions | None = None,
    lowercase: bool = False,
    symmetrize: str = "grow-diag-final-and",
    model: str | None = None,
    overrides: Sequence[str] = (),
    aligner: Path | str | None = None,
    save_aligner: Path | str | None = None,
    seed: int = 0,
    num_threads: int = 0,
    on_pass: Callable[[str, IterationStats], None] = lambda direction, iteration: None,
) -> AlignedFiles:
    """Align the words of files, which may be larger than memory, with a new or a trained aligner.

    Args:
        source: Source text, with words separated by white space, or a file with both sides, such as TMX.
        target: Translations, one line per source line. With a trained aligner, a pair may have an empty side
            and then has no links.
        file_options: Format of a file with both sides.
        lowercase: Whether to ignore case.
        symmetrize: Symmetrization of the two directions: intersection, union, grow-diag, grow-diag-final or
            grow-diag-final-and. With forward or backward, only one direction is used.
        model: Alignment model: ibm1, ibm2, hmm, bayes, ibm3 or ibm4 (extension `smt`), or one of a plugin.
            Default: bayes.
        overrides: Settings of the alignment model, as key=value.
        aligner: Directory of a trained word aligner (`regard align --save-aligner`).
        save_aligner: Directory in which to save the trained aligner.
        seed: Random seed.
        num_threads: Number of CPU threads. Default: all available processors.
        on_pass: Function called with the direction and the results of each pass.

    Raises:
        UsageError: if arguments contradict each other, or there is no such aligner or method.
        DataError: if a file cannot be read or written, or a line is empty.
    """
    method = _method(symmetrize)
    if aligner is not None and (model is not None or overrides or save_aligner is not None):
        raise UsageError("--aligner cannot be combined with --model, --set or --save-aligner")
    config = aligner_config(model or DEFAULT_ALIGNER, apply_overrides({}, overrides), "--set")
    # Check the target directory before training, which may take hours.
    if save_aligner is not None:
        check_replaceable(Path(save_aligner), ALIGNER_FILE, "an aligner")
    trained = None if aligner is None else Aligner.load(aligner)
    # An aligner that was trained on lowercased text has only lowercased words in its vocabulary.
    lowercase = lowercase or (trained is not None and trained.model.lowercase)
    known = None if trained is None else trained.model.words
    corpus = Corpus.read(corpus_files(source, target, file_options), known, lowercase, trained is not None)
    if trained is None:
        # A saved aligner needs both directions, because it may later be symmetrized in another way.
        single = method in DIRECTIONS and save_aligner is None
        setup = TrainingSetup(num_threads=num_threads, seed=seed)
        directions = (str(method),) if single else DIRECTIONS
        trained = Aligner.train_corpus(corpus, config, setup, lowercase, directions, on_pass)
    if save_aligner is not None:
        trained.save(save_aligner)
    lines = trained.model.align(corpus, method, num_threads).lines()
    return AlignedFiles(len(corpus), trained.passes, iter(lines))


def convert_tables(
    tables: Sequence[Path | str],
    output_dir: Path | str,
    *,
    columns: Sequence[int] = (1, 2, 3),
    seed: int = 0,
    num_threads: int = 0,
) -> dict[Path, int]:
    """Convert the forms of inflection tables to sequences of edit actions (Aharoni & Goldberg 2017).

    Args:
        tables: Tab-separated tables. One aligner is trained on all of them.
        output_dir: Output directory. It is created if it does not exist.
        columns: Column numbers (from 1) of the lemma, the features (any number of columns) and the form.
            Tables of SIGMORPHON need 1,3,2.
        seed: Random seed.
        num_threads: Number of CPU threads. Default: all available processors.

    Returns:
        The number of forms by the file of the new table.

    Raises:
        UsageError: if the columns are wrong, or two tables have the same name.
        DataError: if a table is malformed or cannot be read or written.
    """
    if len(columns) < 2 or min(columns) < 1 or len(set(columns)) < len(columns):
        raise UsageError(f"--columns {columns}: expected at least two different numbers, counted from 1")
    settings = from_dict(
        CorpusConfig, {"file": "table", "format": "tsv", "columns": list(columns)}, origin="--columns"
    )
    corpora = [replace(settings, file=str(table)) for table in tables]
    # The new tables are plain text, also those of compressed tables.
    paths = [Path(output_dir) / remove_suffix(Path(table).name) for table in tables]
    # All names are checked before the aligner is trained.
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path}: two tables have this output file. Rename one of the tables.")
    check_outputs(tables, paths)
    counts = write_action_tables(corpora, paths, TrainingSetup(num_threads=num_threads, seed=seed))
    return dict(zip(paths, counts, strict=True))
