"""The files of a coverage model: its word aligner, the rates of unlinked words, and its regressions.

The directory contains `checker.json`, `rates.safetensors` with checksums, and the directory `aligner`. No
file is unpickled.
"""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from regard.alignment import WordAligner
from regard.analysis.coverage.base import ERRORS, CoverageError
from regard.analysis.coverage.evidence import UnlinkedRates
from regard.analysis.coverage.features import LengthModel
from regard.analysis.coverage.logistic import LogisticRegression
from regard.analysis.coverage.model import CoverageModel, CoverageModelConfig
from regard.analysis.coverage.text import WordPair
from regard.config import configclass, option
from regard.data.directories import atomic_directory, check_replaceable
from regard.data.reading import (
    Checksums,
    InvalidJsonError,
    checked_file,
    compute_checksums,
    read_json,
    verify_checksums,
)
from regard.errors import DataError

__all__ = ["load_coverage_model", "save_coverage_model"]

_MODEL_FILE = "checker.json"
_RATES_FILE = "rates.safetensors"
_FORMAT = 1


def save_coverage_model(model: CoverageModel, directory: Path | str) -> None:
    """Save the model to a directory, atomically. An existing model is replaced.

    Raises:
        DataError: if the directory cannot be written, or contains something else.
    """
    directory = Path(directory)
    check_replaceable(directory, _MODEL_FILE, "a coverage model")
    try:
        with atomic_directory(directory) as temp_dir:
            model.aligner.save(temp_dir / "aligner")
            arrays = {}
            for name, side in zip(("source", "target"), model.rates, strict=True):
                arrays |= {f"{name}.rates": side.rates, f"{name}.class_rates": side.class_rates}
            save_file(arrays, temp_dir / _RATES_FILE)
            description = {
                "format": _FORMAT,
                "config": vars(model.config),
                "length": vars(model.length),
                "words": {error: one.to_data() for error, one in model.words.items()},
                "sentences": {error: one.to_data() for error, one in model.sentences.items()},
                "unrelated": model.unrelated.to_data(),
                "sha256": compute_checksums(temp_dir, [_RATES_FILE]),
            }
            text = json.dumps(description, indent=2) + "\n"
            (temp_dir / _MODEL_FILE).write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{directory}: cannot be written: {reason}") from None


def load_coverage_model(directory: Path | str) -> CoverageModel:
    """Load a model that was saved with `save_coverage_model`.

    Raises:
        DataError: if a file is missing or damaged; names it.
    """
    directory = Path(directory)
    path = directory / _MODEL_FILE
    try:
        found = read_json(checked_file(directory, _MODEL_FILE), _Description)
    except InvalidJsonError as error:
        raise DataError(f"{path}: not the description of a coverage model: {error}") from None
    if found.format != _FORMAT:
        raise DataError(f"{path}: format {found.format!r} is not supported, expected {_FORMAT}")
    # The checksum comes first: a damaged file would fail with an error that does not name it.
    verify_checksums(directory, found.sha256, [_RATES_FILE], _MODEL_FILE)
    aligner = WordAligner.load(directory / "aligner")
    arrays = load_file(directory / _RATES_FILE)
    rates = []
    for name, words in zip(("source", "target"), aligner.words, strict=True):
        own, classes = arrays.get(f"{name}.rates"), arrays.get(f"{name}.class_rates")
        if own is None or classes is None or own.shape != (len(words),) or not len(classes):
            raise DataError(f"{directory / _RATES_FILE}: not the rates of this aligner")
        rates.append(UnlinkedRates(words, own, classes))
    words, sentences = _regressions(found.words), _regressions(found.sentences)
    length = LengthModel(**vars(found.length))
    unrelated = LogisticRegression.from_data(**vars(found.unrelated))
    model = CoverageModel(found.config, aligner, (rates[0], rates[1]), length, words, sentences, unrelated)
    # Regressions of the wrong size would fail only when a text is checked.
    try:
        model.scores(model.collect([WordPair(("a",), ("a",))], 1))
    except ValueError:
        raise DataError(f"{path}: the regressions have the wrong number of weights") from None
    return model


def _regressions(found: "_Regressions") -> dict[CoverageError, LogisticRegression]:
    """Return the regression of each error."""
    return {error: LogisticRegression.from_data(**vars(getattr(found, error))) for error in ERRORS}


@configclass
class _Regression:
    """A logistic regression in `checker.json`."""

    weights: list[float] = option(help="Weights.")
    bias: float = option(help="Intercept.")


@configclass
class _Regressions:
    """The regressions of all errors in `checker.json`."""

    omission: _Regression = option(help="Omissions.")
    addition: _Regression = option(help="Additions.")
    repetition: _Regression = option(help="Repetitions.")


@configclass
class _Length:
    """The length model in `checker.json`."""

    slope: float = option(help="Slope.")
    intercept: float = option(help="Intercept.")
    deviation: float = option(help="Standard deviation.", gt=0)


@configclass
class _Description:
    """The content of `checker.json`."""

    format: int = option(help="Version of the file format.")
    config: CoverageModelConfig = option(help="Settings of the training.")
    length: _Length = option(help="Length model.")
    words: _Regressions = option(help="Regressions of words.")
    sentences: _Regressions = option(help="Regressions of sentences.")
    unrelated: _Regression = option(help="Regression of unrelated translations.")
    sha256: Checksums = option(help="Checksums of the other files.")
