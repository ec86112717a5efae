"""Word alignment of files: `regard align`, and the edit actions of inflection tables, `regard actions`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from regard.alignment import Corpus, IterationStats, TrainingSetup, WordAligner
from regard.alignment.base import DEFAULT_ALIGNER
from regard.alignment.pointer_actions import write_action_tables
from regard.alignment.symmetrize import METHODS, Method
from regard.alignment.word_aligner import DIRECTIONS
from regard.api.alignment import Aligner, AlignmentStatistics, aligner_config
from regard.config import from_dict
from regard.errors import UsageError
from regard.text.compression import remove_suffix
from regard.text.corpus import CorpusConfig
from regard.text.paths import check_outputs
from regard.text.reading import InvalidJsonError, parse_json

__all__ = ["AlignedFiles", "align_files", "convert_tables"]

MIN_POSTERIOR = 0.01
"""Probability below which a link is not written."""


@dataclass(frozen=True)
class AlignedFiles:
    """The alignment of files.

    Attributes:
        lines: The links of each pair, which are computed when they are read.
        statistics: The number of pairs, and the passes of training.
    """

    lines: Iterator[str]
    statistics: AlignmentStatistics


@dataclass(frozen=True)
class AlignmentOptions:
    """The text and the output of an alignment.

    Attributes:
        prepared_dir: Directory written by `regard prepare` (instead of files): align the tokens of its
            training text. The output has one line for each sentence pair that was kept.
        lowercase: Whether to ignore case.
        allow_empty: Whether to accept pairs with an empty side, with a trained aligner and two files. They
            get no links.
        symmetrize: Symmetrization of the two directions: intersection, union, grow-diag, grow-diag-final or
            grow-diag-final-and. With forward or backward, only one direction is used.
        posteriors: Whether to write posterior probabilities of links from 0.01 as i-j:p: those of one
            direction, or the mean of both.
    """

    prepared_dir: Path | str | None = None
    lowercase: bool = False
    allow_empty: bool = False
    symmetrize: str = "grow-diag-final-and"
    posteriors: bool = False


def align_files(
    source: Path | str | None = None,
    target: Path | str | None = None,
    *,
    options: AlignmentOptions | None = None,
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
        source: Source text, with words separated by white space.
        target: Translations, one line per source line.
        options: The text and the output.
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
    options = options or AlignmentOptions()
    if options.symmetrize not in METHODS:
        raise UsageError(f"--symmetrize {options.symmetrize!r}: expected one of {', '.join(METHODS)}")
    trains = model is not None or bool(overrides) or save_aligner is not None
    _check_combination(options, trains, aligner is not None, (source, target))
    config = aligner_config(model or DEFAULT_ALIGNER, dict(map(_setting, overrides)), "--model", "--set")
    # Check the target directory before training, which may take hours.
    if save_aligner is not None:
        WordAligner.check_output_dir(Path(save_aligner))
    trained, method = None if aligner is None else Aligner.load(aligner), cast(Method, options.symmetrize)
    # An aligner that was trained on lowercased text has only lowercased words in its vocabulary.
    lowercase = options.lowercase or (trained is not None and trained.model.lowercase)
    corpus = _read_corpus(source, target, options, lowercase, trained)
    if trained is None:
        # A saved aligner needs both directions, because it may later be symmetrized in another way.
        single = method in DIRECTIONS and save_aligner is None
        setup = TrainingSetup(num_threads=num_threads, seed=seed)
        directions = (str(method),) if single else DIRECTIONS
        trained = Aligner.train_corpus(corpus, config, setup, lowercase, directions, on_pass)
    if save_aligner is not None:
        trained.save(save_aligner)
    if options.posteriors:
        lines = _posterior_lines(trained.model, corpus, method, num_threads)
    else:
        lines = trained.model.align(corpus, method, num_threads).lines()
    return AlignedFiles(iter(lines), AlignmentStatistics(len(corpus), trained.passes))


def _check_combination(
    options: AlignmentOptions, trains: bool, has_aligner: bool, files: tuple[Any, Any]
) -> None:
    """Raise UsageError if arguments of `align_files` contradict each other."""
    if has_aligner and trains:
        raise UsageError(
            "--aligner uses a trained aligner, so it cannot be combined with --model, --set or --save-aligner"
        )
    if options.prepared_dir is not None and (files[0] is not None or has_aligner or options.lowercase):
        raise UsageError(
            "--prepared-dir uses text that is already tokenized, so it cannot be combined with text files, "
            "--aligner or --lowercase"
        )
    if options.allow_empty and (not has_aligner or files[1] is None):
        raise UsageError(
            "--allow-empty needs --aligner and two text files: an aligner cannot be trained on empty lines"
        )


def _read_corpus(
    source: Path | str | None,
    target: Path | str | None,
    options: AlignmentOptions,
    lowercase: bool,
    trained: Aligner | None,
) -> Corpus:
    """Return the text of `align_files`, in the numbers of the words of an aligner if there is one."""
    if options.prepared_dir is not None:
        from regard.data.dataset import PreparedData

        return PreparedData.open(options.prepared_dir).alignment_corpus()
    words = None if trained is None else trained.model.words
    if source is not None and target is not None:
        return Corpus.read(Path(source), Path(target), words, lowercase, options.allow_empty)
    raise UsageError("give two text files, source and target, or --prepared-dir")


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text!r}: expected key=value")
    try:
        return key, parse_json(value, object)
    except InvalidJsonError:
        # A word without quotes is not JSON and stands for itself.
        return key, value


def _posterior_lines(aligner: WordAligner, corpus: Corpus, method: Method, num_threads: int) -> Iterator[str]:
    """Yield the links of each pair with their probabilities."""
    # A pair that is too long is empty here, which avoids a large matrix of zeros.
    for links in aligner.posteriors(aligner.alignable(corpus), method, num_threads):
        # Rows of `links` are target words. The transpose sorts the output by source words.
        sources, targets = np.nonzero(links.T >= MIN_POSTERIOR)
        values = links[targets, sources]
        fields = zip(sources.tolist(), targets.tolist(), values.tolist(), strict=True)
        yield " ".join(f"{i}-{j}:{p:.4f}" for i, j, p in fields)


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
    settings = from_dict(CorpusConfig, {"tsv": "table", "columns": list(columns)}, origin="--columns")
    corpora = [replace(settings, tsv=str(table)) for table in tables]
    # The new tables are plain text, also those of compressed tables.
    paths = [Path(output_dir) / remove_suffix(Path(table).name) for table in tables]
    # All names are checked before the aligner is trained.
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path}: two tables have this output file. Rename one of the tables.")
    check_outputs(tables, paths)
    counts = write_action_tables(corpora, paths, TrainingSetup(num_threads=num_threads, seed=seed))
    return dict(zip(paths, counts, strict=True))
