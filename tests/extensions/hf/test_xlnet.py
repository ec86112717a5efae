"""XLNet as a pre-trained encoder: the same states as in transformers, training, and attribution."""

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers
from test_training import SMALL, run_config
from tiny import ModelDir

import regard
from regard.data.batch import PaddedSequences
from regard.data.text import TextSide
from regard.extensions.hf.layers import HfEncoder
from regard.extensions.hf.loading import load_encoder
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.models.transformer.model import TransformerModel
from regard.text.vocabulary import SINK
from regard.training.run import run_training

LINES = ["die Katze", "ein kleiner Hund läuft im Garten ."]


def test_states_equal_transformers_with_the_special_symbols_at_the_end(model_dir: ModelDir) -> None:
    directory = model_dir("xlnet")
    tokenizer = PretrainedTokenizer.create(PretrainedTokenizerConfig(path=str(directory)), (), "source")
    assert tokenizer.special_tokens == ("<sep>", "<cls>")
    side = TextSide(tokenizer, tokenizer.vocabulary)
    source = PaddedSequences.pad([[*side.encode(line), SINK, SINK] for line in LINES])
    encoder = HfEncoder(load_encoder(directory, weights=True), tokenizer, 16).eval()
    library = transformers.AutoModel.from_pretrained(directory).eval()
    ids = transformers.AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        states, _ = encoder(source, False)
        for row, line in enumerate(LINES):
            expected = library(**ids(line, return_tensors="pt")).last_hidden_state[0]
            assert len(expected) == source.lengths[row]
            torch.testing.assert_close(states[row, : len(expected)], expected, atol=1e-5, rtol=0)


def test_encoder_is_trained_and_its_predictions_are_attributed(model_dir: ModelDir, tmp_path: Path) -> None:
    model = {"kind": "pretrained", "encoder_path": str(model_dir("xlnet")), **SMALL}
    run_training(run_config(tmp_path, model, 3), tmp_path / "run")
    loaded = regard.load(tmp_path / "run")
    assert isinstance(loaded.backend.model, TransformerModel)
    found = loaded.score(tiny.TEXT[0], tiny.TEXT[2], map="gradient")
    (weights,) = found.attention
    words = [place for place, number in enumerate(found.source_word_ids) if number >= 0]
    assert weights[:, :, words].sum() > 0 and weights.sum() == pytest.approx(weights[:, :, words].sum())
