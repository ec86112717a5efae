"""Saving and loading of a phrase-based system: phrase table, language model and feature weights.

The directory `phrase/` of a model directory contains `about.json` (weights by name, BLEU of the validation
text, checksums) and the memory-mapped arrays of both tables. It is created atomically.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from regard.config import configclass, option
from regard.data.directories import atomic_directory
from regard.data.reading import (
    Checksums,
    InvalidJsonError,
    checked_file,
    compute_checksums,
    read_json,
    verify_checksums,
)
from regard.data.text import TextProcessor
from regard.data.vocabulary import UNK
from regard.errors import CheckpointError, DataError
from regard.smt.config import PhraseConfig
from regard.smt.decoder import PhraseDecoder, SearchLimits
from regard.smt.features import feature_names
from regard.smt.language_model import NgramLanguageModel
from regard.smt.phrase_table import PhraseTable

__all__ = [
    "PHRASE_DIR",
    "PhraseModel",
    "build_decoder",
    "load_phrase_decoder",
    "load_phrases",
    "read_file_checksums",
    "read_fingerprint",
    "save_phrases",
]

PHRASE_DIR = "phrase"
PHRASE_METADATA_FILE = "about.json"
FORMAT_VERSION = 2


@configclass
class _Metadata:
    """The content of `about.json`."""

    format: int = option(help="Version of the file format.")
    bleu: float = option(help="BLEU of the validation text.", allow_inf_nan=False)
    fingerprint: str | None = option(default=None, help="Fingerprint of the training text.")
    file_checksums: Checksums = option(default=dict, help="Checksums of the config and the vocabularies.")
    weights: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = option(help="Feature weights.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


@dataclass(frozen=True, eq=False)
class PhraseModel:
    """A trained phrase-based system.

    Attributes:
        decoder: The decoder with tables and feature weights.
        text: The tokenizers and vocabularies.
        bleu: The BLEU of the validation text after tuning, from 0 to 100, on tokens.
    """

    decoder: PhraseDecoder
    text: TextProcessor
    bleu: float

    def source_ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of source tokens; each distinct unknown token has a negative id: -1, -2..."""
        ids = self.text.source.vocabulary.to_ids(tokens)
        unknown_ids: dict[str, int] = {}
        return [
            unknown_ids.setdefault(token, -1 - len(unknown_ids)) if number == UNK else number
            for token, number in zip(tokens, ids, strict=True)
        ]


def build_decoder(
    table: PhraseTable,
    language_model: NgramLanguageModel,
    text: TextProcessor,
    weights: np.ndarray,
    config: PhraseConfig,
) -> PhraseDecoder:
    """Return the decoder that a config describes.

    Args:
        table: The phrase table, with the ids of the vocabularies.
        language_model: The language model.
        text: The tokenizers and vocabularies.
        weights: The feature weights.
        config: The options of the system, which give the limits of the search.
    """
    ids = np.array(language_model.ids(text.target.vocabulary.tokens), dtype=np.int64)
    limits = SearchLimits(
        config.stack_size, distortion_limit=config.distortion_limit, max_options=config.max_options
    )
    return PhraseDecoder(table, language_model, ids, weights, config.reordering == "lexicalized", limits)


def save_phrases(
    output_dir: Path,
    decoder: PhraseDecoder,
    bleu: float,
    fingerprint: str,
    file_checksums: Mapping[str, str] | None = None,
) -> None:
    """Write the tables and weights of a system to a model directory.

    Args:
        output_dir: The model directory.
        decoder: The decoder with tables and weights.
        bleu: The BLEU of the validation text.
        fingerprint: The fingerprint of the training text.
        file_checksums: The checksums of the config and the vocabularies; see `regard.training.resume`.

    Raises:
        CheckpointError: if a file cannot be written.
    """
    directory = output_dir / PHRASE_DIR
    try:
        with atomic_directory(directory) as temp_dir:
            decoder.table.save(temp_dir)
            decoder.language_model.save(temp_dir)
            metadata = {
                "format": FORMAT_VERSION,
                "bleu": bleu,
                "fingerprint": fingerprint,
                "file_checksums": dict(file_checksums or {}),
                "weights": dict(zip(feature_names(), decoder.weights.tolist(), strict=True)),
                "sha256": compute_checksums(temp_dir, sorted(path.name for path in temp_dir.iterdir())),
            }
            (temp_dir / PHRASE_METADATA_FILE).write_text(
                json.dumps(metadata, indent=2) + "\n", encoding="utf-8"
            )
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be written: {error.strerror or error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def load_phrases(model_dir: Path, config: PhraseConfig) -> PhraseModel:
    """Load a phrase-based system from a model directory.

    Args:
        model_dir: The model directory.
        config: The table `model` of its config.

    Raises:
        CheckpointError: if a file is missing, truncated or altered; the message names it.
    """
    try:
        text = TextProcessor.load(model_dir)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    decoder, bleu = load_phrase_decoder(model_dir, text, config)
    return PhraseModel(decoder, text, bleu)


def load_phrase_decoder(
    model_dir: Path, text: TextProcessor, config: PhraseConfig
) -> tuple[PhraseDecoder, float]:
    """Load a decoder that `save_phrases` wrote, and its BLEU on the validation text.

    Args:
        model_dir: The model directory.
        text: The tokenizers and vocabularies.
        config: The options of the system, which give the limits of the search.

    Raises:
        CheckpointError: if a file is missing, truncated or altered; the message names it.
    """
    directory = model_dir / PHRASE_DIR
    try:
        metadata = _read_metadata(directory)
        verify_checksums(
            directory, metadata.sha256, (path.name for path in directory.glob("*.npy")), PHRASE_METADATA_FILE
        )
        table, model = PhraseTable.load(directory), NgramLanguageModel.load(directory)
        try:
            table.check(len(text.source.vocabulary), len(text.target.vocabulary))
        except DataError as error:
            raise DataError(
                f"{directory}: the phrase table does not fit the vocabularies: phrases.{error}"
            ) from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    weights = np.array([metadata.weights[name] for name in feature_names()])
    return build_decoder(table, model, text, weights, config), metadata.bleu


def read_fingerprint(model_dir: Path) -> str | None:
    """Return the fingerprint of a system's training text, or None if it was not recorded.

    Raises:
        CheckpointError: if the directory contains no phrase-based system.
    """
    return _read_metadata(model_dir / PHRASE_DIR).fingerprint


def read_file_checksums(model_dir: Path) -> dict[str, str]:
    """Return the recorded checksums of the config and vocabularies that a system was trained with.

    Raises:
        CheckpointError: if the directory contains no phrase-based system.
    """
    return _read_metadata(model_dir / PHRASE_DIR).file_checksums


def _read_metadata(directory: Path) -> _Metadata:
    path = directory / PHRASE_METADATA_FILE
    try:
        metadata = read_json(checked_file(directory, PHRASE_METADATA_FILE), _Metadata)
    except InvalidJsonError as error:
        raise CheckpointError(f"{path}: not the description of a phrase-based system: {error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    missing = [name for name in feature_names() if name not in metadata.weights]
    if missing or metadata.format != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: not the description of a phrase-based system of this version of regard"
        )
    return metadata
