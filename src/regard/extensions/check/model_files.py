"""The files of a coverage model: its aligners, link counts, norms of words, and classifiers.

The directory contains `checker.json`, `checker.safetensors` with its checksum, and the aligners of words and
of stems in the directories `words` and `stems`. No file is unpickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.alignment import WordAligner
from regard.config import configclass, option
from regard.errors import DataError
from regard.extensions.check.base import ERRORS, CoverageError, WordPair
from regard.extensions.check.error_tagger import ErrorTagger
from regard.extensions.check.evidence import STATISTICS, WordNorms
from regard.extensions.check.features import MIN_DEVIATION, NUM_WORD_FEATURES, LengthModel
from regard.extensions.check.link_model import LinkModel
from regard.extensions.check.logistic import LogisticRegression
from regard.extensions.check.model import TAGGED, CoverageModelConfig, ErrorModel
from regard.extensions.check.posteriors import LinkCounts
from regard.text.array_files import MAX_COUNT, ArrayForm, check_arrays, check_range, load_arrays
from regard.text.files import atomic_directory, check_replaceable, format_json
from regard.text.paths import check_link
from regard.text.reading import (
    Checksums,
    checked_file,
    compute_checksums,
    read_expected_json,
    verify_checksums,
)

__all__ = ["check_model_dir", "load_coverage_model", "save_coverage_model"]

_MODEL_FILE = "checker.json"
_ARRAYS_FILE = "checker.safetensors"
_FORMAT = 2
_SIDES = ("source", "target")
_LINKS = ("words", "stems")


def check_model_dir(directory: Path) -> None:
    """Check, before training, that a model may be saved to a directory.

    Raises:
        DataError: if the directory contains something else.
    """
    check_replaceable(directory, _MODEL_FILE, "a coverage model")


def save_coverage_model(model: ErrorModel, directory: Path | str) -> None:
    """Save the model to a directory, atomically. An existing model is replaced.

    Raises:
        DataError: if the directory cannot be written, or contains something else.
    """
    directory = Path(directory)
    check_model_dir(directory)
    try:
        with atomic_directory(directory) as temp_dir:
            for name, links in _link_models(model).items():
                links.aligner.save(temp_dir / name)
            save_file(_arrays(model), temp_dir / _ARRAYS_FILE)
            description = {
                "format": _FORMAT,
                "config": vars(model.config),
                "length": vars(model.length),
                "repeated_words": model.repeated.to_data(),
                "sentences": {error: regression.to_data() for error, regression in model.sentences.items()},
                "unrelated": model.unrelated.to_data(),
                "sha256": compute_checksums(temp_dir, [_ARRAYS_FILE]),
            }
            text = format_json(description, indent=2) + "\n"
            (temp_dir / _MODEL_FILE).write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{directory}: cannot be written: {reason}") from None


def load_coverage_model(directory: Path | str) -> ErrorModel:
    """Load a model that was saved with `save_coverage_model`.

    Raises:
        DataError: if a file is missing or damaged; names it.
    """
    directory = Path(directory)
    path = checked_file(directory, _MODEL_FILE)
    description = read_expected_json(path, _Description, "the description of a coverage model")
    if description.format != _FORMAT:
        raise DataError(f"{path}: format {description.format}, expected {_FORMAT}: train the model again")
    # The checksum comes first: a damaged file would fail with an error that does not name it.
    verify_checksums(directory, description.sha256, [_ARRAYS_FILE], _MODEL_FILE)
    aligners = {name: WordAligner.load(check_link(directory / name, directory)) for name in _LINKS}
    arrays = load_arrays(directory / _ARRAYS_FILE)
    try:
        check_arrays(arrays, _array_forms(aligners))
        words = _link_model("words", aligners["words"], arrays, None)
        stems = _link_model("stems", aligners["stems"], arrays, description.config.stem_length)
    except DataError as error:
        raise DataError(f"{directory / _ARRAYS_FILE}: {error}") from None
    model = ErrorModel(
        description.config,
        words,
        stems,
        LengthModel(**vars(description.length)),
        {error: ErrorTagger.from_arrays(_group(arrays, f"tagger.{error}")) for error in TAGGED},
        LogisticRegression.from_data(**vars(description.repeated_words)),
        {error: LogisticRegression.from_data(**vars(description.sentences[error])) for error in ERRORS},
        LogisticRegression.from_data(**vars(description.unrelated)),
    )
    try:
        # A regression with the wrong number of weights would fail only when a text is checked.
        model.scores(model.collect([WordPair(("a",), ("a",))], 1))
    except ValueError:
        raise DataError(f"{path}: the number of weights of a regression is wrong") from None
    return model


def _link_models(model: ErrorModel) -> dict[str, LinkModel]:
    """Return the models of links by their names in the directory."""
    return dict(zip(_LINKS, (model.words, model.stems), strict=True))


def _arrays(model: ErrorModel) -> dict[str, np.ndarray]:
    """Return all arrays of a model by their names in the file."""
    groups: dict[str, Mapping[str, np.ndarray]] = {}
    for name, links in _link_models(model).items():
        groups[f"{name}.links"] = {"keys": links.counts.keys, "counts": links.counts.counts}
        for side, norms, occurrences in zip(_SIDES, links.norms, links.counts.occurrences, strict=True):
            groups[f"{name}.{side}"] = {**norms.arrays(), "occurrences": occurrences}
    for error in TAGGED:
        groups[f"tagger.{error}"] = model.taggers[error].arrays()
    return {
        f"{group}/{name}": np.ascontiguousarray(array)
        for group, arrays in groups.items()
        for name, array in arrays.items()
    }


def _group(arrays: Mapping[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """Return the arrays of a group by their names in it."""
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _array_forms(aligners: Mapping[str, WordAligner]) -> dict[str, ArrayForm]:
    """Return the forms of the arrays in the file."""
    columns = len(STATISTICS)
    forms: dict[str, ArrayForm] = {}
    for name, aligner in aligners.items():
        sizes = [len(words) for words in aligner.words]
        forms[f"{name}.links/keys"] = ("int64", 0, sizes[0] * sizes[1] - 1, None)
        forms[f"{name}.links/counts"] = ("float64", 0, MAX_COUNT, None)
        for side, size in zip(_SIDES, sizes, strict=True):
            forms[f"{name}.{side}/occurrences"] = ("float64", 0, MAX_COUNT, size)
            forms[f"{name}.{side}/means"] = ("float64", -MAX_COUNT, MAX_COUNT, size, columns)
            forms[f"{name}.{side}/deviations"] = ("float64", 0, MAX_COUNT, size, columns)
            forms[f"{name}.{side}/unknown"] = ("float64", -MAX_COUNT, MAX_COUNT, 2, columns)
    tagger = ErrorTagger.array_forms(2 * NUM_WORD_FEATURES)  # of words and of stems
    return forms | {f"tagger.{error}/{name}": form for error in TAGGED for name, form in tagger.items()}


def _link_model(
    name: str, aligner: WordAligner, arrays: Mapping[str, np.ndarray], stem_length: int | None
) -> LinkModel:
    """Return the model of links with a name in the directory.

    Raises:
        DataError: if the values of an array are not valid together.
    """
    source, target = (WordNorms(**_group(arrays, f"{name}.{side}")) for side in _SIDES)
    for side, norms in zip(_SIDES, (source, target), strict=True):
        # The second row contains deviations.
        check_range(f"{name}.{side}/unknown", norms.unknown[1], 0, MAX_COUNT)
    links = _group(arrays, f"{name}.links")
    if len(links["keys"]) != len(links["counts"]) or (np.diff(links["keys"]) <= 0).any():
        raise DataError(f"{name}.links/keys: not in ascending order, or not one for each count")
    counts = LinkCounts(**links, occurrences=(source.occurrences, target.occurrences))
    return LinkModel(aligner, counts, (source, target), stem_length)


_Weight = Annotated[float, Field(ge=-MAX_COUNT, le=MAX_COUNT)]


@configclass
class _Regression:
    """A logistic regression in `checker.json`."""

    weights: list[_Weight] = option(help="Weights.")
    bias: _Weight = option(help="Intercept.")


@configclass
class _Length:
    """The length model in `checker.json`."""

    slope: _Weight = option(help="Slope.")
    intercept: _Weight = option(help="Intercept.")
    deviation: _Weight = option(help="Standard deviation.", ge=MIN_DEVIATION)


@configclass
class _Description:
    """The content of `checker.json`."""

    format: int = option(help="Version of the file format.")
    config: CoverageModelConfig = option(help="Settings of the training.")
    length: _Length = option(help="Length model.")
    repeated_words: _Regression = option(help="Regression of repeated words.")
    sentences: dict[CoverageError, _Regression] = option(help="Regressions of sentences, of all errors.")
    unrelated: _Regression = option(help="Regression of unrelated translations.")
    sha256: Checksums = option(help="Checksums of the other files.")
