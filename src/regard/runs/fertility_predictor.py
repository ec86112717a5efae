"""The fertility predictor of a model (Malaviya et al. 2018): a tagger and its vocabulary, in a directory.

    DIRECTORY/predictor.json           sizes, and the largest fertility
    DIRECTORY/source.vocabulary        the vocabulary of source words
    DIRECTORY/model.safetensors        the weights of the epoch with the best F1

A model with predicted fertilities has it in the directory `predictor`. `regard.training.fertility`
trains it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import configclass, option, to_dict
from regard.data.batch import collate
from regard.data.fertility import PredictedFertilityConfig
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError
from regard.models.rnn.tagger import FertilityTagger, TaggerConfig
from regard.runs.checksums import CHECKSUMS_KEY, compare_checksums
from regard.runs.serialization import read_metadata, write_tensors
from regard.runs.weights import MODEL_FILE, copy_weights, load_weights, named_weights
from regard.text.files import write_atomic
from regard.text.paths import check_link
from regard.text.reading import InvalidJsonError, checked_file, file_digest, read_json
from regard.text.vocabulary import TokenIds, Vocabulary

PREDICTOR_DIR = "predictor"
PREDICTOR_FILE, VOCABULARY_FILE = "predictor.json", "source.vocabulary"
BATCH_SIZE = 64  # sentences


@configclass
class PredictorDescription:
    """The content of `predictor.json`."""

    tagger: TaggerConfig = option(help="Sizes of the tagger.")
    num_classes: int = option(help="Largest fertility that the tagger predicts.", ge=1, le=1_000_000)

    def save(self, directory: Path) -> None:
        """Write the description into the directory of a predictor."""
        write_atomic(directory / PREDICTOR_FILE, (json.dumps(to_dict(self), indent=2) + "\n").encode())


@dataclass(frozen=True, eq=False)
class FertilityPredictor:
    """A trained tagger and its vocabulary."""

    model: FertilityTagger
    vocabulary: Vocabulary

    def __eq__(self, other: object) -> bool:
        """Return whether vocabulary, config and weights are equal."""
        if not isinstance(other, FertilityPredictor):
            return NotImplemented
        if self.vocabulary != other.vocabulary or self.model.config != other.model.config:
            return False
        mine, its = self.model.state_dict(), other.model.state_dict()
        return all(torch.equal(mine[name], its[name]) for name in mine)

    @torch.inference_mode()
    def expected_fertilities(self, sentences: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the expected fertility of each word, at least 1; the list of an empty sentence is empty."""
        self.model.eval()
        fertilities: list[list[float]] = [[] for _ in sentences]
        # Sentences of similar lengths share a batch, which keeps the padding small.
        order = sorted(
            (row for row in range(len(sentences)) if len(sentences[row])), key=lambda row: len(sentences[row])
        )
        for first in range(0, len(order), BATCH_SIZE):
            rows = order[first : first + BATCH_SIZE]
            batch = collate([self.vocabulary.to_ids(sentences[row]) for row in rows], None, rows)
            for row, values in zip(rows, self.model.expected_fertility(batch.source).tolist(), strict=True):
                fertilities[row] = values[: len(sentences[row])]
        return fertilities

    def save(self, directory: Path) -> None:
        """Write the files that prediction needs, without the training state; `predictor.json` comes last.

        Raises:
            CheckpointError: if a file cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{directory}: cannot create the directory: {error.strerror}") from None
        self.vocabulary.save(directory / VOCABULARY_FILE)
        about = PredictorDescription(tagger=self.model.config, num_classes=self.model.num_classes)
        checksums = predictor_checksums(to_dict(about), directory / VOCABULARY_FILE)
        write_tensors(directory / MODEL_FILE, named_weights(self.model), {CHECKSUMS_KEY: checksums})
        about.save(directory)

    @classmethod
    def load(cls, directory: Path | str) -> "FertilityPredictor":
        """Load a predictor that `save` or `train_predictor` wrote.

        Raises:
            DataError: if the directory contains no predictor.
            CheckpointError: if its weights are missing, truncated or altered.
        """
        directory = Path(directory)
        try:
            file = checked_file(directory, PREDICTOR_FILE)
            about, stated = read_json(file, PredictorDescription), read_json(file, dict[str, Any])
        except InvalidJsonError as error:
            raise DataError(
                f"{directory / PREDICTOR_FILE}: not the description of a fertility predictor: {error}"
            ) from None
        vocabulary = Vocabulary.load(checked_file(directory, VOCABULARY_FILE))
        weights = directory / MODEL_FILE
        checksums = predictor_checksums(stated, directory / VOCABULARY_FILE)
        compare_checksums(read_metadata(weights).get(CHECKSUMS_KEY), weights, directory, checksums)
        model = FertilityTagger(about.tagger, len(vocabulary), about.num_classes)
        copy_weights(model, load_weights(directory), str(directory))
        return cls(model.eval(), vocabulary)


def predictor_checksums(stated: Mapping[str, Any], vocabulary: Path) -> dict[str, str]:
    """Return the checksums of the vocabulary and the sizes that a tagger's weights depend on.

    Args:
        stated: The content of `predictor.json`, without defaults, as in `regard.runs.checksums`.
        vocabulary: The file of the vocabulary.
    """
    sizes = json.dumps([stated["tagger"], stated["num_classes"]], sort_keys=True)
    return {
        VOCABULARY_FILE: file_digest(vocabulary),
        PREDICTOR_FILE: hashlib.sha256(sizes.encode()).hexdigest(),
    }


@dataclass(frozen=True)
class _TokenPredictor:
    """A fertility predictor that takes token ids of a model's source vocabulary."""

    predictor: FertilityPredictor
    vocabulary: Vocabulary

    def predict(self, sentences: Sequence[TokenIds]) -> list[np.ndarray]:
        """Return the expected fertility of each token, one float32 array per sentence."""
        rows = self.predictor.expected_fertilities([self.vocabulary.to_tokens(ids) for ids in sentences])
        return [np.array(row, dtype=np.float32) for row in rows]


def load_text_processing(directory: Path | str) -> TextProcessor:
    """Load the vocabularies and tokenizers of a model directory, and its fertility predictor if it has one.

    Raises:
        DataError: if a file is missing, truncated or altered; the message names it.
        CheckpointError: if the predictor's weights are missing, truncated or altered.
    """
    text = TextProcessor.load(directory)
    if text.budget is None or not isinstance(text.budget.config, PredictedFertilityConfig):
        return text
    return with_predictor(text, check_link(Path(directory) / PREDICTOR_DIR, Path(directory)))


def save_text_processing(text: TextProcessor, directory: Path) -> None:
    """Write the vocabularies and tokenizers of a model, and its fertility predictor if it has one.

    Raises:
        DataError: if a file cannot be written.
        CheckpointError: if the predictor's weights cannot be written.
    """
    if text.budget is not None and isinstance(text.budget.predictor, _TokenPredictor):
        text.budget.predictor.predictor.save(directory / PREDICTOR_DIR)
    text.save(directory)


def with_predictor(text: TextProcessor, directory: Path) -> TextProcessor:
    """Return the text with the predictor that is stored in a directory."""
    assert text.budget is not None
    predictor = _TokenPredictor(FertilityPredictor.load(directory), text.source.vocabulary)
    return dataclasses.replace(text, budget=dataclasses.replace(text.budget, predictor=predictor))
