"""A trained phrase-based system in its folder: phrase table, language model, weights.

`phrase/` in a model folder holds `about.json` (weights by name, what tuning reached, sizes of the files) and
the arrays of both tables, which are memory-mapped. It appears whole or not at all.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.files import read_bytes
from regard.data.folders import whole_folder
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
FORMAT = 1


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
                "bytes": {path.name: path.stat().st_size for path in sorted(made.iterdir())},
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
        about = _about(place / ABOUT)
        for name, size in about["bytes"].items():
            found = (place / name).stat().st_size
            if found != size:
                raise CheckpointError(f"{place / name}: truncated or altered: {found} bytes, expected {size}")
        table, model = PhraseTable.load(place), LanguageModel.load(place)
    except OSError as error:
        raise CheckpointError(f"{error.filename}: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    weights = np.array([about["weights"][name] for name in feature_names()])
    return make_decoder(table, model, text, weights, config), about["bleu"]


def phrases_of(folder: Path) -> str | None:
    """The fingerprint of the text that a folder's system was made of; none where it does not say.

    Raises:
        CheckpointError: if the folder holds no such system.
    """
    return _about(folder / PHRASE_FOLDER / ABOUT)["fingerprint"]


def phrases_beside(folder: Path) -> Any:
    """The checksums of what a folder's system was trained beside.

    Raises:
        CheckpointError: if the folder holds no such system.
    """
    return _about(folder / PHRASE_FOLDER / ABOUT).get("beside")


def _about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(read_bytes(path))
        weights = [about["weights"].get(name, math.nan) for name in feature_names()]
        if about["format"] == FORMAT and np.isfinite(weights).all():
            return {
                "bleu": float(about["bleu"]),
                "weights": about["weights"],
                "bytes": dict(about["bytes"]),
                "fingerprint": about.get("fingerprint"),
                "beside": about.get("beside"),
            }
    except (ValueError, KeyError, TypeError):
        pass
    raise CheckpointError(f"{path}: not the description of a phrase-based system")
