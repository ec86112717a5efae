"""The files of a coverage model: its aligners, link counts, norms of words, and classifiers.

The directory contains `checker.json`, `checker.safetensors` with its checksum, and the aligners of words and
of stems in the directories `words` and `stems`; or, instead of aligners, the checksums of an encoder. No file
is unpickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.alignment import WordAligner
from regard.config import configclass, option
from regard.config.extensions import resolve_directory
from regard.errors import DataError, UsageError
from regard.extensions.check.base import ERRORS
from regard.extensions.check.classifiers import ErrorTagger, LogisticRegression
from regard.extensions.check.critical import NUM_CLASSES, CriticalWords
from regard.extensions.check.evidence import STATISTICS, LinkModel, WordNorms
from regard.extensions.check.features import (
    NUM_REPETITION_FEATURES,
    NUM_ROOM_FEATURES,
    NUM_SENTENCE_FEATURES,
    NUM_WORD_FEATURES,
)
from regard.extensions.check.model import STEM_LENGTH, TAGGED, ErrorModel
from regard.extensions.check.posteriors import EncoderAligner, LinkCounts, TextAligner, TextLinker
from regard.extensions.check.surface import MIN_DEVIATION, LengthModel
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

_MODEL_FILE = "checker.json"
_ARRAYS_FILE = "checker.safetensors"
_FORMAT = 6
_SIDES = ("source", "target")
_ALIGNERS: Mapping[str, int | None] = {"words": None, "stems": STEM_LENGTH}
_REGRESSIONS: Mapping[str, int] = {
    "omission": 3,
    "addition": 3,
    "repetition": NUM_REPETITION_FEATURES,
    "repeated": NUM_REPETITION_FEATURES,
    "unrelated": 2 * NUM_SENTENCE_FEATURES,  # of both sides
}
"""Number of features of each regression: of the sentences of an error, and of repeated words."""


_Count = Annotated[float, Field(ge=0, le=MAX_COUNT, allow_inf_nan=False)]


@configclass
class _Description:
    """The content of `checker.json`."""

    format: int = option(help="Version of the file format.")
    sha256: Checksums = option(help="Checksums of the other files.")
    doubled: tuple[str, ...] = option(help="Words that good translations double.")
    negations: tuple[tuple[str, ...], tuple[str, ...]] = option(help="Words of both sides that negate.")
    contexts: dict[str, tuple[_Count, _Count]] = option(
        help="Occurrences and losses of negations in context."
    )
    encoder: Checksums = option({}, help="Checksums of the weights of the encoder; empty without one.")


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
            for name, aligner in _aligners(model).items():
                if isinstance(aligner, TextAligner):
                    aligner.aligner.save(temp_dir / name)
            save_file(_arrays(model), temp_dir / _ARRAYS_FILE)
            checksums = compute_checksums(temp_dir, [_ARRAYS_FILE])
            description = {
                "format": _FORMAT,
                "sha256": checksums,
                "doubled": sorted(model.doubled),
                "negations": list(map(sorted, model.critical.negations)),
                "contexts": model.critical.contexts,
            }
            if isinstance(model.aligner, EncoderAligner):
                description["encoder"] = model.aligner.encoder.checksums
            text = format_json(description, indent=2) + "\n"
            (temp_dir / _MODEL_FILE).write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{directory}: cannot be written: {reason}") from None


def load_coverage_model(directory: Path | str, encoder: Any = None) -> ErrorModel:
    """Load a model that was saved with `save_coverage_model`.

    Args:
        directory: The directory, or the name of a model on the Hugging Face Hub.
        encoder: The encoder with which it was trained, if any.

    Raises:
        DataError: if a file is missing or damaged; names it.
        UsageError: if the model needs another encoder, or none.
    """
    directory = resolve_directory(directory)
    path = checked_file(directory, _MODEL_FILE)
    description = read_expected_json(path, _Description, "the description of a coverage model")
    if description.format != _FORMAT:
        raise DataError(f"{path}: format {description.format}, expected {_FORMAT}: train the model again")
    # The checksum comes first: a damaged file would fail with an error that does not name it.
    verify_checksums(directory, description.sha256, [_ARRAYS_FILE], _MODEL_FILE)
    if description.encoder != (encoder.checksums if encoder else {}):
        if encoder:
            raise UsageError(f"{directory}: not trained with the encoder {encoder.directory} (--encoder)")
        raise UsageError(
            f"{directory}: trained with an encoder, which it needs (encoder=DIR, regard check --encoder DIR)"
        )
    aligners: dict[str, TextLinker] = {"encoder": EncoderAligner(encoder)} if encoder else {}
    if not encoder:
        for name, stem_length in _ALIGNERS.items():
            aligner = WordAligner.load(check_link(directory / name, directory))
            aligners[name] = TextAligner(aligner, stem_length)
    arrays = load_arrays(directory / _ARRAYS_FILE)
    try:
        check_arrays(arrays, _array_forms(aligners))
        check_range("critical/classes", arrays["critical/classes"][..., 0], 2, MAX_COUNT)
        check_range("length/values", arrays["length/values"][-1], MIN_DEVIATION, MAX_COUNT)
        links = tuple(_link_model(name, aligner, arrays) for name, aligner in aligners.items())
    except DataError as error:
        raise DataError(f"{directory / _ARRAYS_FILE}: {error}") from None
    critical = _critical_words(description, links[0].aligner, arrays)
    taggers = {}
    for error in TAGGED:
        parameters = _group(arrays, f"tagger.{error}")
        taggers[error] = ErrorTagger(parameters.pop("center"), parameters.pop("scale"), parameters)
    regressions = {
        name: LogisticRegression(values[:-1], float(values[-1]))
        for name, values in _group(arrays, "regressions").items()
    }
    return ErrorModel(
        links,
        LengthModel(*arrays["length/values"].tolist()),
        frozenset(description.doubled),
        critical,
        taggers,
        regressions["repeated"],
        {error: regressions[error] for error in ERRORS},
        regressions["unrelated"],
    )


def _arrays(model: ErrorModel) -> dict[str, np.ndarray]:
    """Return all arrays of a model by their names in the file."""
    regressions = {**model.sentences, "repeated": model.repeated, "unrelated": model.unrelated}
    length = model.length
    groups: dict[str, Mapping[str, np.ndarray]] = {
        "length": {"values": np.array([length.slope, length.intercept, length.deviation])},
        "critical": {
            "classes": model.critical.classes,
            **{
                side: np.array(
                    [[frequency.get(word, 0), *losses.get(word, (0, 0))] for word in words.words], float
                ).reshape(-1, 3)
                for side, words, frequency, losses in zip(
                    _SIDES,
                    model.aligner.vocabularies,
                    model.critical.frequencies,
                    model.critical.losses,
                    strict=True,
                )
            },
        },
        "regressions": {name: np.append(each.weights, each.bias) for name, each in regressions.items()},
    }
    for name, links in zip(_aligners(model), model.links, strict=True):
        groups[f"{name}.links"] = {"keys": links.counts.keys, "counts": links.counts.counts}
        for side, norms in zip(_SIDES, links.norms, strict=True):
            groups[f"{name}.{side}"] = vars(norms)
    for error, tagger in model.taggers.items():
        groups[f"tagger.{error}"] = {"center": tagger.center, "scale": tagger.scale, **tagger.parameters}
    return {
        f"{group}/{name}": np.ascontiguousarray(array)
        for group, arrays in groups.items()
        for name, array in arrays.items()
    }


def _aligners(model: ErrorModel) -> dict[str, TextLinker]:
    """Return the aligners of a model, or its encoder, by their names in the files."""
    names = ["encoder"] if model.is_multilingual else _ALIGNERS
    return {name: links.aligner for name, links in zip(names, model.links, strict=True)}


def _group(arrays: Mapping[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _array_forms(aligners: Mapping[str, TextLinker]) -> dict[str, ArrayForm]:
    columns = len(STATISTICS)
    forms: dict[str, ArrayForm] = {
        "length/values": ("float64", -MAX_COUNT, MAX_COUNT, 3),
        # Occurrences and losses; the former are at least 2.
        "critical/classes": ("float64", 0, MAX_COUNT, 2, NUM_CLASSES, 2),
    }
    for side, words in zip(_SIDES, next(iter(aligners.values())).vocabularies, strict=True):
        forms[f"critical/{side}"] = ("float64", 0, MAX_COUNT, len(words), 3)
    for name, size in _REGRESSIONS.items():
        # The only feature of an encoder is the similarity of the sentences.
        size = 1 if name == "unrelated" and "encoder" in aligners else size
        forms[f"regressions/{name}"] = ("float64", -MAX_COUNT, MAX_COUNT, size + 1)
    for name, aligner in aligners.items():
        sizes = [len(words) for words in aligner.vocabularies]
        forms[f"{name}.links/keys"] = ("int64", 0, max(sizes[0] * sizes[1] - 1, 0), None)
        forms[f"{name}.links/counts"] = ("float64", 0, MAX_COUNT, None)
        for side, size in zip(_SIDES, sizes, strict=True):
            forms[f"{name}.{side}/occurrences"] = ("float64", 0, MAX_COUNT, size)
            forms[f"{name}.{side}/means"] = ("float64", -MAX_COUNT, MAX_COUNT, size, columns)
            forms[f"{name}.{side}/deviations"] = ("float64", 0, MAX_COUNT, size, columns)
            forms[f"{name}.{side}/unknown"] = ("float64", -MAX_COUNT, MAX_COUNT, 2, columns)
    tagger = ErrorTagger.array_forms(len(aligners) * NUM_WORD_FEATURES + NUM_ROOM_FEATURES)
    return forms | {f"tagger.{error}/{name}": form for error in TAGGED for name, form in tagger.items()}


def _critical_words(
    description: _Description, aligner: TextLinker, arrays: Mapping[str, np.ndarray]
) -> CriticalWords:
    tables = [
        dict(zip(words.words, arrays[f"critical/{side}"].tolist(), strict=True))
        for side, words in zip(_SIDES, aligner.vocabularies, strict=True)
    ]
    frequencies = [{word: counts[0] for word, counts in table.items()} for table in tables]
    losses = [{word: counts[1:] for word, counts in table.items() if counts[1]} for table in tables]
    return CriticalWords(
        (frozenset(description.negations[0]), frozenset(description.negations[1])),
        (frequencies[0], frequencies[1]),
        (losses[0], losses[1]),
        description.contexts,
        arrays["critical/classes"],
    )


def _link_model(name: str, aligner: TextLinker, arrays: Mapping[str, np.ndarray]) -> LinkModel:
    """Return the model of links with a name in the directory."""
    source, target = (WordNorms(**_group(arrays, f"{name}.{side}")) for side in _SIDES)
    for side, norms in zip(_SIDES, (source, target), strict=True):
        # The second row contains deviations.
        check_range(f"{name}.{side}/unknown", norms.unknown[1], 0, MAX_COUNT)
    links = _group(arrays, f"{name}.links")
    if len(links["keys"]) != len(links["counts"]) or (np.diff(links["keys"]) <= 0).any():
        raise DataError(f"{name}.links/keys: not in ascending order, or not one for each count")
    counts = LinkCounts(**links, occurrences=(source.occurrences, target.occurrences))
    return LinkModel(aligner, counts, (source, target))
