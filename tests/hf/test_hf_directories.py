"""Damaged directories of Hugging Face models, and kinds of models that are not supported."""

# pyright: basic

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers
from tiny import ModelDir

from regard.errors import CheckpointError
from regard.experiment import load_model
from regard.models.hf.loading import load_encoder


def copied(model_dir: Path, into: Path) -> Path:
    shutil.copytree(model_dir, into)
    return into


def test_computed_positions_may_be_missing_from_the_weights(model_dir: ModelDir) -> None:
    encoder = load_encoder(model_dir("marian"), weights=True)
    whole = transformers.MarianMTModel.from_pretrained(model_dir("marian")).get_encoder()
    ids = torch.tensor([[3, 5, 4, 0]])
    with torch.no_grad():
        found, wanted = (one.eval()(input_ids=ids).last_hidden_state for one in (encoder, whole))
    torch.testing.assert_close(found, wanted)


def test_encoder_saved_without_pooler_loads(tmp_path: Path) -> None:
    tokenizer = tiny.wordpiece_tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    cross_attending = transformers.BertConfig(
        **{**config.to_dict(), "is_decoder": True, "add_cross_attention": True}
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    model = transformers.EncoderDecoderModel(
        encoder=encoder, decoder=transformers.BertLMHeadModel(cross_attending)
    )
    model.config.decoder_start_token_id, model.config.pad_token_id, model.config.eos_token_id = 2, 0, 3
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_model(tmp_path, "cpu").text.source.tokenize("ein Hund")


def test_missing_or_inconsistent_file_is_named(model_dir: ModelDir, tmp_path: Path) -> None:
    bare = copied(model_dir("bart"), tmp_path / "bare")
    for path in bare.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="bare: the directory contains no tokenizer files"):
        load_model(bare, "cpu")
    broken = copied(model_dir("bart"), tmp_path / "broken")
    (broken / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"broken/config\.json: truncated or not a JSON"):
        load_model(broken, "cpu")
    resized = copied(model_dir("bart"), tmp_path / "resized")
    content = json.loads((resized / "config.json").read_text()) | {"d_model": 32}
    (resized / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"has shape \[66, 16\] in the weights, but \[66, 32\]"):
        load_model(resized, "cpu")
