"""A fertility predictor stays readable when a later version adds an option with a default."""

import json
from pathlib import Path

import pytest

from regard.errors import CheckpointError
from regard.metrics.base import METRICS
from regard.models.rnn.tagger import TaggerConfig
from regard.runs.checksums import CHECKSUMS_KEY
from regard.runs.fertility_predictor import (
    PREDICTOR_FILE,
    VOCABULARY_FILE,
    FertilityPredictor,
    predictor_checksums,
)
from regard.runs.serialization import read_tensors, write_tensors
from regard.training.fertility import TaggedSentences, train_predictor

TAGGED = TaggedSentences([["a", "b"], ["b"], ["a", "a"]], [[1, 2], [2], [1, 1]])
SIZES = TaggerConfig(embedding_size=4, hidden_size=4)


def test_the_f1_of_fertilities_precedes_a_metric_of_a_plugin(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(METRICS, "_entries", {**METRICS._entries, "f1": METRICS._entry("bleu")})
    result = train_predictor(tmp_path / "p", TAGGED, TAGGED, SIZES)
    assert 0 <= result.rows()[-1]["f1"] <= 1 and result.metric == "f1"


def test_options_that_the_description_does_not_state_have_their_defaults(tmp_path: Path) -> None:
    train_predictor(tmp_path / "p", TAGGED, TAGGED, SIZES)
    known = FertilityPredictor.load(tmp_path / "p")
    # The description of a version without the option `dropout`, and its weights.
    file, weights = tmp_path / "p" / PREDICTOR_FILE, tmp_path / "p" / "model.safetensors"
    stated = json.loads(file.read_text())
    del stated["tagger"]["dropout"]
    tensors, about = read_tensors(weights)
    checksums = predictor_checksums(stated, tmp_path / "p" / VOCABULARY_FILE)
    write_tensors(weights, tensors, {**about, CHECKSUMS_KEY: checksums})
    file.write_text(json.dumps(stated))
    assert FertilityPredictor.load(tmp_path / "p") == known
    stated["tagger"]["dropout"] = 0.5
    file.write_text(json.dumps(stated))
    with pytest.raises(CheckpointError, match=r"predictor\.json: the checksum differs"):
        FertilityPredictor.load(tmp_path / "p")
