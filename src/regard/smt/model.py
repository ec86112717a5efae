"""A trained phrase-based system in its folder: phrase table, language model, weights.

`phrase/` in a model folder holds `about.json` (weights by name, what tuning reached, checksums) and the
arrays of both tables, which are memory-mapped. It appears whole or not at all.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from regard.config import config, option
from regard.data.folders import whole_folder
from regard.data.reading import NotJson, read_json
from regard.data.sealed import Digests, check_seal, own_file, seal
from regard.data.text import TextPair
from regard.data.vocabulary import UNK
from regard.errors import CheckpointError, DataError
from regard.smt.config import PhraseConfig
from regard.smt.decoder import Beam, Decoder
from regard.smt.features import feature_names
from regard.smt.language_model import LanguageModel
from regard.smt.phrase_table import PhraseTable

__all__ = [
    "PHRASE_FOLDER",
    "PhraseModel",
    "load_decoder",
    "load_phrases",
    "make_decoder",
    "phrases_beside",
    "phrases_of",
    "save_phrases",
]

PHRASE_FOLDER = "phrase"
ABOUT = "about.json"
FORMAT = 2


@config
class _About:
    """The content of `about.json`."""

    format: int = option(help="The version of the files.")
    bleu: float = option(help="BLEU of the validation text.", allow_inf_nan=False)
    fingerprint: str | None = option(default=None, help="Of the training text.")
    beside: Digests = option(default=dict, help="The checksums of what it was trained beside.")
    weights: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = option(help="Of the features.")
    sha256: Digests = option(help="The checksum of each file beside this one.")


@dataclass(frozen=True, eq=False)
class PhraseModel:
    """A system ready to translate.

    Attributes:
        decoder: Its tables and weights.
        text: Its tokenizers and vocabularies.
        bleu: BLEU of the validation text, out of 100, on tokens, when its weights were tuned.
    """

    decoder: Decoder
    text: TextPair
    bleu: float

    def source_ids(self, tokens: list[str]) -> list[int]:
        """The numbers of source tokens as the phrase table knows them; unknown ones get -1, -2..."""
        ids = self.text.source.vocabulary.ids(tokens)
        strange: dict[str, int] = {}
        return [
            strange.setdefault(token, -1 - len(strange)) if number == UNK else number
            for token, number in zip(tokens, ids, strict=True)
        ]


def make_decoder(
    table: PhraseTable, model: LanguageModel, text: TextPair, weights: np.ndarray, config: PhraseConfig
) -> Decoder:
    """A decoder as a configuration has it.

    Args:
        table: The phrase table, in the numbers of the vocabularies.
        model: The language model.
        text: Tokenizers and vocabularies.
        weights: Of the features.
        config: How much is searched.
    """
    ids = np.array(model.ids(text.target.vocabulary.tokens), dtype=np.int64)
    beam = Beam(config.stack, limit=config.distortion_limit, options=config.options)
    return Decoder(table, model, ids, weights, config.reordering == "lexicalised", beam)


def save_phrases(
    folder: Path, decoder: Decoder, bleu: float, fingerprint: str, beside: Mapping[str, str] | None = None
) -> None:
    """Write what was learned into a model folder.

    Args:
        folder: The model folder.
        decoder: Tables and weights.
        bleu: What tuning reached.
        fingerprint: Of the text.
        beside: The checksums of the config and the vocabularies; see `regard.training.resume`.

    Raises:
        CheckpointError: if it cannot be written.
    """
    place = folder / PHRASE_FOLDER
    try:
        with whole_folder(place) as made:
            decoder.table.save(made)
            decoder.model.save(made)
            about = {
                "format": FORMAT,
                "bleu": bleu,
                "fingerprint": fingerprint,
                "beside": dict(beside or {}),
                "weights": dict(zip(feature_names(), decoder.weights.tolist(), strict=True)),
                "sha256": seal(made, sorted(path.name for path in made.iterdir())),
            }
            (made / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{place}: cannot be written: {error.strerror or error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def load_phrases(folder: Path, config: PhraseConfig) -> PhraseModel:
    """Open a model folder that training made.

    Args:
        folder: The model folder.
        config: Its `model`.

    Raises:
        CheckpointError: if a file is missing, truncated or altered; names it.
    """
    try:
        text = TextPair.load(folder)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    decoder, bleu = load_decoder(folder, text, config)
    return PhraseModel(decoder, text, bleu)


def load_decoder(folder: Path, text: TextPair, config: PhraseConfig) -> tuple[Decoder, float]:
    """The tables and weights that `save_phrases` wrote, and what their BLEU was.

    Args:
        folder: As it was given there.
        text: Tokenizers and vocabularies.
        config: How much is searched.

    Raises:
        CheckpointError: if a file is missing, truncated or altered; names it.
    """
    place = folder / PHRASE_FOLDER
    try:
        about = _about(place)
        check_seal(place, about.sha256, (path.name for path in place.glob("*.npy")), ABOUT)
        table, model = PhraseTable.load(place), LanguageModel.load(place)
        try:
            table.check(len(text.source.vocabulary), len(text.target.vocabulary))
        except DataError as error:
            raise DataError(f"{place}: not a phrase table of these vocabularies: phrases.{error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    weights = np.array([about.weights[name] for name in feature_names()])
    return make_decoder(table, model, text, weights, config), about.bleu


def phrases_of(folder: Path) -> str | None:
    """The fingerprint of the text that a folder's system was made of; none where it does not say.

    Raises:
        CheckpointError: if the folder holds no such system.
    """
    return _about(folder / PHRASE_FOLDER).fingerprint


def phrases_beside(folder: Path) -> dict[str, str]:
    """The checksums of what a folder's system was trained beside.

    Raises:
        CheckpointError: if the folder holds no such system.
    """
    return _about(folder / PHRASE_FOLDER).beside


def _about(place: Path) -> _About:
    path = place / ABOUT
    try:
        about = read_json(own_file(place, ABOUT), _About)
    except NotJson as error:
        raise CheckpointError(f"{path}: not the description of a phrase-based system: {error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    lacking = [name for name in feature_names() if name not in about.weights]
    if lacking or about.format != FORMAT:
        raise CheckpointError(
            f"{path}: not the description of a phrase-based system of this version of regard"
        )
    return about
