"""Coverage errors in the translations of any system, without a reference: `regard.check`.

check = regard.check("test.de", "system.en", training=("train.de", "train.en"))
print(check.summary())
check.worst(3)  # the sentences with the highest probabilities
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from regard.api.arguments import TextSource, check_texts, read_parallel
from regard.errors import UsageError
from regard.extensions.check.base import DETECTORS, ERRORS, Detector, WordPair, build_detector, split_pairs
from regard.extensions.check.detectors import apply_note, find_note
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import check_model_dir, load_coverage_model, save_coverage_model
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence

if TYPE_CHECKING:
    from regard.generation.reranking import CoverageJudgment

_BLOCK_PAIRS = 1_000
_RULES_ONLY = (
    "checked by length and repetition only: with good translations to learn from (--train SOURCE TARGET), "
    "single omitted and added words and unrelated translations are found as well"
)


@dataclass(frozen=True)
class CoverageModel:
    """A model of good translations, trained on parallel text. Search uses it as a `CoverageJudge`.

    Attributes:
        model: The model.
        num_threads: Number of threads of the word aligner. 0 uses all processors.
    """

    model: ErrorModel
    num_threads: int = 0

    @classmethod
    def train(cls, sources: TextSource, translations: TextSource, num_threads: int = 0) -> Self:
        """Train a model on good translations, plain or tokenized text.

        Args:
            sources: The source lines, or a file.
            translations: Their translations.
            num_threads: Number of threads. 0 uses all processors.

        Raises:
            DataError: if a file cannot be read, the numbers of lines differ, or there are fewer than 100
                sentence pairs.
        """
        # Without PyTorch, training must fail here and not after minutes of alignment.
        import_module("torch")
        names = "training sources", "training translations"
        source, target = read_parallel(sources, translations, names)
        pairs = split_pairs(source.lines, target.lines)
        return cls(ErrorModel.train(pairs, num_threads), num_threads)

    @classmethod
    def load(cls, directory: Path | str, num_threads: int = 0) -> Self:
        """Load a model that was saved with `save` or `regard check --save-checker`.

        Raises:
            DataError: if a file is missing or damaged; names it.
        """
        return cls(load_coverage_model(directory), num_threads)

    def save(self, directory: Path | str) -> None:
        """Save the model to a directory, atomically.

        Raises:
            DataError: if the directory contains something else, or cannot be written.
        """
        save_coverage_model(self.model, directory)

    def check_pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[CheckedSentence]:
        """Check a text of any size: yield the results in order, block by block, in constant memory.

        Args:
            pairs: Source sentences with their translations, such as the lines of a file that is being read.

        Raises:
            UsageError: if an item is not a string.
        """
        return check_blocks(pairs, prepare_detector(checker=self, num_threads=self.num_threads))

    def judge(self, sources: Sequence[str], translations: Sequence[str]) -> "list[CoverageJudgment]":
        """Return the coverage errors of each translation."""
        from regard.generation.reranking import (
            CoverageJudgment,
        )  # imports sacreBLEU, which a check does not need

        pairs = split_pairs(sources, translations)
        scores = self.model.scores(pairs, self.num_threads)
        return [
            CoverageJudgment(
                pair.source,
                tuple(scores_of_pair.words["omission"].tolist()),
                *(float(scores_of_pair.sentence[error]) for error in ERRORS),
                errors=sum(float(values.sum()) for values in scores_of_pair.words.values()),
            )
            for pair, scores_of_pair in zip(pairs, scores, strict=True)
        ]


def check(
    sources: TextSource,
    translations: TextSource | None = None,
    detector: str | None = None,
    *,
    checker: CoverageModel | Path | str | None = None,
    training: tuple[TextSource, TextSource] | None = None,
    save_checker: Path | str | None = None,
    num_threads: int = 0,
    on_message: Callable[[str], None] = lambda message: None,
) -> CoverageCheck:
    """Find omissions, additions and repetitions in translations of any system, without a reference.

    Args:
        sources: Source text, plain or compressed. On the command line, `-` is standard input: in each line a
            source, a tab and its translation.
        translations: Translations, one line per source line. A pair with a side of more than 1,000 words is
            not checked, and has a note.
        detector: Detector: combined (calibrated probabilities of all errors), rules (length and repetition
            together), length, repetition, or one of a plugin. Only combined needs a model. Default: combined
            with a checker or training text, otherwise rules.
        checker: Directory of a model of good translations (`regard check --save-checker`), or the model.
        training: Source text and good translations on which a model is trained, best several thousand lines.
        save_checker: Directory in which to save the trained model.
        num_threads: Number of CPU threads. Default: all available processors.
        on_message: Function that is called with the progress of training.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
        UsageError: if there is no such detector, or an input that it needs is missing; names the remedy.
    """
    if translations is None:
        raise UsageError("translations are missing; only standard input, `-`, has both sides of a pair")
    parallel = read_parallel(sources, translations, ("sources", "translations"))
    lines = parallel[0].lines, parallel[1].lines
    built = prepare_detector(detector, checker, training, save_checker, num_threads, on_message)
    name = detector or ("rules" if built.model is None else "combined")
    return CoverageCheck(name, tuple(_checked(built, lines)), files=(parallel[0].file, parallel[1].file))


def check_blocks(pairs: Iterable[tuple[str, str]], detector: Detector) -> Iterator[CheckedSentence]:
    """Check a text of any size: yield the results in order, block by block, in constant memory.

    Args:
        pairs: Source sentences with their translations.
        detector: The detector. `length` takes the usual lengths from the first block of 1,000 pairs.

    Raises:
        UsageError: if an item is not a string.
    """
    remaining, first_line = iter(pairs), 1
    while block := list(islice(remaining, _BLOCK_PAIRS)):
        sides = zip(("sources", "translations"), zip(*block, strict=True), strict=True)
        sources, translations = (check_texts(side, name) for name, side in sides)
        yield from _checked(detector, (sources, translations), first_line)
        first_line += len(block)


def prepare_detector(
    detector: str | None = None,
    checker: CoverageModel | Path | str | None = None,
    training: tuple[TextSource, TextSource] | None = None,
    save_checker: Path | str | None = None,
    num_threads: int = 0,
    on_message: Callable[[str], None] = lambda message: None,
) -> Detector:
    """Return the detector with its model, which is loaded or trained; with the arguments of `check`."""
    if checker is not None and training is not None:
        raise UsageError("give either checker (--checker) or training (--train), not both")
    if save_checker is not None:
        if training is None:
            raise UsageError("save_checker (--save-checker) needs training (--train)")
        check_model_dir(Path(save_checker))
    has_model = checker is not None or training is not None
    if detector is None:
        detector = "combined" if has_model else "rules"
        if not has_model:
            on_message(_RULES_ONLY)
    # A wrong name and a missing model are reported before a model is trained or loaded.
    if DETECTORS.get(detector) is None or not has_model:
        build_detector(detector)
    if isinstance(checker, Path | str):
        checker = CoverageModel.load(checker, num_threads)
    elif training is not None:
        checker = _train(training, save_checker, num_threads, on_message)
    return build_detector(detector, None if checker is None else checker.model, num_threads)


def _checked(
    detector: Detector, lines: tuple[Sequence[str], Sequence[str]], first_line: int = 1
) -> Iterator[CheckedSentence]:
    """Yield the sentences with the scores of a detector and the notes about unusual ones."""
    pairs = split_pairs(*lines)
    scores = detector.detect([WordPair((), ()) if pair.is_too_long else pair for pair in pairs])
    for line, (pair, source, translation, pair_scores) in enumerate(
        zip(pairs, *lines, scores, strict=True), first_line
    ):
        note = find_note(pair, detector.model)
        pair_scores = apply_note(note, pair, pair_scores)
        yield CheckedSentence.of(line, (source, translation), pair_scores, note)


def _train(
    training: tuple[TextSource, TextSource],
    directory: Path | str | None,
    num_threads: int,
    on_message: Callable[[str], None],
) -> CoverageModel:
    """Return a model that is trained on a text, and save it if there is a directory for it."""
    start = time.monotonic()
    on_message(f"training on {training[0]} and {training[1]} ...")
    model = CoverageModel.train(*training, num_threads=num_threads)
    if directory is not None:
        model.save(directory)
    saved = "" if directory is None else f" and saved in {directory}"
    on_message(f"trained in {time.monotonic() - start:.0f} s{saved}")
    return model
