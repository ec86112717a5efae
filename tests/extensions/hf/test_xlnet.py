"""XLNet as a pre-trained encoder: the same states as in transformers."""

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import torch
import transformers
from tiny import ModelDir

from regard.data.batch import PaddedSequences
from regard.data.text import TextSide
from regard.extensions.hf.loading import load_encoder
from regard.extensions.hf.systems import HfEncoder
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.text.vocabulary import SINK

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
