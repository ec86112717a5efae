"""Coverage errors in the translations of any system, without a reference: `regard.check`.

check = regard.check("test.de", "system.en", training=("train.de", "train.en"))
print(check.summary())
check.worst(3)  # the sentences with the highest probabilities
"""

# The modules of the model are imported late: a check without a model needs neither Numba nor the aligners.
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from regard.api.arguments import TextSource, check_texts, open_segments, read_parallel
from regard.config.extensions import require_hook
from regard.errors import DataError, UsageError
from regard.extensions.check.base import (
    DETECTORS,
    ERRORS,
    TAGGED,
    Detector,
    WordPair,
    build_detector,
    split_pairs,
)
from regard.extensions.check.detectors import apply_note, find_note
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence
from regard.text.formats.base import FileOptions, Segment
from regard.version import __version__

if TYPE_CHECKING:
    from regard.analysis.inputs import Progress
    from regard.extensions.check.model import ErrorModel
    from regard.generation.reranking import CoverageJudgment

_BLOCK_PAIRS = 1_000
_RULES_ONLY = (
    "checked by length, repetition, numbers and markup only: with good translations to learn from (--train "
    "SOURCE TARGET), single omitted and added words, names, negations and unrelated translations are found, "
    "too"
)


@dataclass(frozen=True)
class CoverageModel:
    """A model of good translations, trained on parallel text. Search uses it as a `CoverageJudge`.

    Attributes:
        model: The model.
        num_threads: Number of threads of the word aligner. 0 uses all processors.
    """

    model: "ErrorModel"
    num_threads: int = 0

    @classmethod
    def train(
        cls,
        sources: TextSource,
        translations: TextSource | None = None,
        num_threads: int = 0,
        file_options: FileOptions | None = None,
        encoder: Path | str | None = None,
        progress: "Progress" = lambda items, name, total: iter(items),
    ) -> Self:
        """Train a model on good translations, plain or tokenized text.

        Args:
            sources: The source lines, or a file; without translations, a file with both sides.
            translations: Their translations.
            num_threads: Number of threads. 0 uses all processors.
            file_options: Format of a file with both sides.
            encoder: Directory of a multilingual encoder of Hugging Face; the model is for all its languages.
            progress: Progress display of the training of classifiers.

        Raises:
            CheckpointError: if a file of the encoder is missing or broken.
            DataError: if a file cannot be read, the numbers of lines differ, or there are fewer than 100
                sentence pairs.
        """
        from regard.extensions.check.model import ErrorModel

        names = "training sources", "training translations"
        source, target = read_parallel(sources, translations, names, file_options)
        pairs = split_pairs(source.lines, target.lines)
        return cls(
            ErrorModel.train(pairs, num_threads, _load_encoder(encoder, num_threads), progress), num_threads
        )

    @classmethod
    def load(cls, directory: Path | str, num_threads: int = 0, encoder: Path | str | None = None) -> Self:
        """Load a model that was saved with `save` or `regard check --save-checker`.

        Raises:
            DataError: if a file is missing or damaged; names it.
            UsageError: if the model was trained with another encoder, or without one.
        """
        from regard.extensions.check.model_files import load_coverage_model

        return cls(load_coverage_model(directory, _load_encoder(encoder, num_threads)), num_threads)

    def save(self, directory: Path | str) -> None:
        """Save the model to a directory, atomically.

        Raises:
            DataError: if the directory contains something else, or cannot be written.
        """
        from regard.extensions.check.model_files import save_coverage_model

        save_coverage_model(self.model, directory)

    def check_pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[CheckedSentence]:
        """Check a text of any size: yield the results in order, block by block, in constant memory.

        Args:
            pairs: Source sentences with their translations, such as the lines of a file that is being read.

        Raises:
            UsageError: if an item is not a string.
        """
        segments = (Segment(*check_texts(pair, "pairs"), line=number) for number, pair in enumerate(pairs, 1))
        return check_blocks(segments, prepare_detector(checker=self, num_threads=self.num_threads))

    def judge(self, sources: Sequence[str], translations: Sequence[str]) -> "list[CoverageJudgment]":
        """Return the coverage errors of each translation. An unrelated one omits and adds every word."""
        from regard.generation.reranking import CoverageJudgment  # imports sacreBLEU

        pairs = split_pairs(sources, translations)
        judgments = []
        for pair, scores in zip(pairs, self.model.scores(pairs, self.num_threads), strict=True):
            unrelated = {error: scores.sentence["unrelated"] if error in TAGGED else 0.0 for error in ERRORS}
            words = {error: scores.words[error] + unrelated[error] for error in ERRORS}
            sentence = [scores.sentence[error] + unrelated[error] for error in ERRORS]
            errors = sum(float(values.sum()) for values in words.values())
            judgments.append(
                CoverageJudgment(pair.source, tuple(words["omission"].tolist()), *sentence, errors=errors)
            )
        return judgments


def check(
    sources: TextSource,
    translations: TextSource | None = None,
    detector: str | None = None,
    *,
    file_options: FileOptions | None = None,
    checker: CoverageModel | Path | str | None = None,
    training: tuple[TextSource, TextSource] | None = None,
    training_file: Path | str | None = None,
    save_checker: Path | str | None = None,
    encoder: Path | str | None = None,
    num_threads: int = 0,
    on_message: Callable[[str], None] = lambda message: None,
    progress: "Progress" = lambda items, name, total: iter(items),
) -> CoverageCheck:
    """Find what translations of any system omit, add, repeat or alter, without a reference.

    Args:
        sources: Source text, or a file with both sides, such as TMX. `-` is standard input.
        translations: Translations, one line per source line. A pair with a side of more than 1,000 words is
            not checked, and has a note.
        detector: Detector: combined (calibrated probabilities of all errors), rules (length, repetition and
            numbers), length, repetition, or one of a plugin. Only combined needs a model. Default: combined
            with a checker or training text, otherwise rules.
        file_options: Format of a file with both sides.
        checker: Directory of a model of good translations (`regard check --save-checker`), or the model.
        training: Source text and good translations on which a model is trained, best several thousand lines.
        training_file: File with both sides, instead of `training`. Its format is that of its suffix.
        save_checker: Directory in which to save the trained model. Default: for training files, the cache
            directory of the user, from which the next check with the same text loads it.
        encoder: Directory of a multilingual encoder of Hugging Face, whose embeddings replace word alignment.
            A model that is trained with it is for all its languages, and needs it again. Without a model, it
            finds unrelated translations in a text of at least 20 pairs.
        num_threads: Number of CPU threads. Default: all available processors.
        on_message: Function that is called with the progress of training.
        progress: Progress display of training and of the sentences, which it passes through.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
        UsageError: if there is no such detector, or an input that it needs is missing; names the remedy.
    """
    segments = list(open_segments(sources, translations, ("sources", "translations"), file_options))
    built = prepare_detector(
        detector, checker, training, training_file, save_checker, encoder, num_threads, on_message, progress
    )
    name = detector or ("rules" if built.model is None else "combined")
    texts = sources, sources if translations is None else translations
    files = [str(text) if isinstance(text, str | Path) and str(text) != "-" else None for text in texts]
    # Without a model, the usual length is that of the whole text. Embeddings need much memory.
    in_blocks = built.needs_model or built.encoder is not None
    checked = check_blocks(segments, built) if in_blocks else _checked(built, segments)
    sentences = tuple(progress(checked, "check", len(segments)))
    return CoverageCheck(name, sentences, files=(files[0], files[1]))


def check_blocks(segments: Iterable[Segment], detector: Detector) -> Iterator[CheckedSentence]:
    """Check a text of any size: yield the results in order, block by block, in constant memory.

    Args:
        segments: Source sentences with their translations.
        detector: The detector. `length` takes the usual lengths from the first block of 1,000 pairs.
    """
    remaining, first_line = iter(segments), 1
    while block := list(islice(remaining, _BLOCK_PAIRS)):
        yield from _checked(detector, block, first_line)
        first_line += len(block)


def prepare_detector(
    detector: str | None = None,
    checker: CoverageModel | Path | str | None = None,
    training: tuple[TextSource, TextSource | None] | None = None,
    training_file: Path | str | None = None,
    save_checker: Path | str | None = None,
    encoder: Path | str | None = None,
    num_threads: int = 0,
    on_message: Callable[[str], None] = lambda message: None,
    progress: "Progress" = lambda items, name, total: iter(items),
) -> Detector:
    """Return the detector with its model, which is loaded or trained; with the arguments of `check`."""
    if sum(value is not None for value in (checker, training, training_file)) > 1:
        raise UsageError("give only one of --checker, --train and --training-file")
    if training_file is not None:
        training = training_file, None
    if save_checker is not None:
        if training is None:
            raise UsageError("save_checker (--save-checker) needs training (--train or --training-file)")
        from regard.extensions.check.model_files import check_model_dir

        check_model_dir(Path(save_checker))
    has_model = checker is not None or training is not None
    if detector is None:
        detector = "combined" if has_model else "rules"
        if not has_model and encoder is None:
            on_message(_RULES_ONLY)
    # A wrong name and a missing model are reported before a model is trained or loaded.
    if DETECTORS.get(detector) is None or not has_model:
        build_detector(detector)
    if isinstance(checker, Path | str):
        checker = CoverageModel.load(checker, num_threads, encoder)
    elif training is not None:
        checker = _train(training, save_checker, num_threads, on_message, encoder, progress)
    if checker is not None:
        return build_detector(detector, checker.model, num_threads)
    built = build_detector(detector, None, num_threads)
    built.encoder = _load_encoder(encoder, num_threads)
    return built


def _load_encoder(directory: Path | str | None, num_threads: int) -> Any:
    return None if directory is None else require_hook("text_encoder", "hf")(directory, num_threads)


def _checked(
    detector: Detector, segments: Sequence[Segment], first_line: int = 1
) -> Iterator[CheckedSentence]:
    """Yield the sentences with the scores of a detector and the notes about unusual ones."""
    pairs = split_pairs([segment.source for segment in segments], [segment.target for segment in segments])
    scores = detector.detect([WordPair((), ()) if pair.is_too_long else pair for pair in pairs])
    for line, (pair, segment, pair_scores) in enumerate(
        zip(pairs, segments, scores, strict=True), first_line
    ):
        note = find_note(pair, detector.model)
        pair_scores = apply_note(note, pair, pair_scores)
        texts, file_line = (segment.source, segment.target), None if segment.line == line else segment.line
        yield CheckedSentence.of(line, texts, pair_scores, note, segment.id, file_line)


def _train(
    training: tuple[TextSource, TextSource | None],
    directory: Path | str | None,
    num_threads: int,
    on_message: Callable[[str], None],
    encoder: Path | str | None,
    progress: "Progress",
) -> CoverageModel:
    """Return a model that is trained on a text, and save it.

    Without a directory, a checker that is trained on files is saved in the cache of the user, from which it
    is loaded if there is one for the same text.
    """
    start, names = time.monotonic(), training
    is_cached = directory is None and isinstance(training[0], Path | str)
    if is_cached:
        source, target = read_parallel(*training, ("training sources", "training translations"))
        training = source.lines, target.lines
        with suppress(RuntimeError):  # without a home directory, there is no cache
            directory = _cache_dir(source.lines, target.lines, encoder)
        # Unlike `Path.is_dir`, without an error in a directory without permission.
        if directory is not None and os.path.isdir(directory):
            with suppress(DataError, UsageError):
                model = CoverageModel.load(directory, num_threads, encoder)
                on_message(f"loaded the checker of this training text from {directory}")
                return model
    on_message(f"training on {' and '.join(str(text) for text in names if text is not None)} ...")
    model = CoverageModel.train(*training, num_threads=num_threads, encoder=encoder, progress=progress)
    saved = ""
    if directory is not None:
        try:
            model.save(directory)
            saved = f" and saved in {directory}"
        except DataError as error:
            if not is_cached:
                raise
            saved = f", but not saved: {error}"
    on_message(f"trained in {time.monotonic() - start:.0f} s{saved}")
    return model


def _cache_dir(sources: Sequence[str], translations: Sequence[str], encoder: Path | str | None) -> Path:
    """Return the directory of the checker of a training text in the cache of the user."""
    # Line by line, because the text may be large. Another version of the code trains another checker.
    digest = hashlib.sha256()
    for line in chain([__version__, str(encoder)], sources, translations):
        digest.update(f"{line}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "regard" / "checkers" / digest.hexdigest()[:16]
