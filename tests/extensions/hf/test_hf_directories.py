"""Damaged directories of Hugging Face models, and kinds of models that are not supported."""

# pyright: basic

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers
from tiny import ModelDir

from regard.data.batch import PaddedSequences
from regard.data.text import TextSide
from regard.errors import CheckpointError, ConfigError, DataError
from regard.extensions.hf.loading import load_encoder
from regard.extensions.hf.systems import HfEncoder
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.runs.loading import load_model
from regard.text.vocabulary import SINK


def test_computed_positions_may_be_missing_from_the_weights(model_dir: ModelDir) -> None:
    encoder = load_encoder(model_dir("marian"), weights=True)
    whole = transformers.MarianMTModel.from_pretrained(model_dir("marian")).get_encoder()
    ids = torch.tensor([[3, 5, 4, 0]])
    with torch.no_grad():
        found, wanted = (one.eval()(input_ids=ids).last_hidden_state for one in (encoder, whole))
    torch.testing.assert_close(found, wanted)


def test_states_of_xlnet_equal_transformers_with_the_special_symbols_at_the_end(model_dir: ModelDir) -> None:
    directory, lines = model_dir("xlnet"), ["die Katze", "ein kleiner Hund läuft im Garten ."]
    tokenizer = PretrainedTokenizer.create(PretrainedTokenizerConfig(path=str(directory)), (), "source")
    assert tokenizer.special_tokens == ("<sep>", "<cls>")
    side = TextSide(tokenizer, tokenizer.vocabulary)
    source = PaddedSequences.pad([[*side.encode(line), SINK, SINK] for line in lines])
    encoder = HfEncoder(load_encoder(directory, weights=True), tokenizer, 16).eval()
    library = transformers.AutoModel.from_pretrained(directory).eval()
    ids = transformers.AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        states, _ = encoder(source, False)
        for row, line in enumerate(lines):
            expected = library(**ids(line, return_tensors="pt")).last_hidden_state[0]
            assert len(expected) == source.lengths[row]
            torch.testing.assert_close(states[row, : len(expected)], expected, atol=1e-5, rtol=0)


def test_encoder_saved_without_pooler_loads(tmp_path: Path) -> None:
    config = tiny.bert(tmp_path / "bert").config
    both = {"is_decoder": True, "add_cross_attention": True}
    cross_attending = transformers.BertConfig(**{**config.to_dict(), **both})
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    model = transformers.EncoderDecoderModel(
        encoder=encoder, decoder=transformers.BertLMHeadModel(cross_attending)
    )
    model.config.decoder_start_token_id, model.config.pad_token_id, model.config.eos_token_id = 2, 0, 3
    model.save_pretrained(tmp_path)
    tiny.wordpiece_tokenizer().save_pretrained(tmp_path)
    assert load_model(tmp_path, "cpu").text.source.tokenize("ein Hund")


def test_missing_or_inconsistent_file_is_named(model_dir: ModelDir, tmp_path: Path) -> None:
    bare = shutil.copytree(model_dir("bart"), tmp_path / "bare")
    for path in bare.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="bare: the directory contains no tokenizer files"):
        load_model(bare, "cpu")
    resized = shutil.copytree(model_dir("bart"), tmp_path / "resized")
    content = json.loads((resized / "config.json").read_text()) | {"d_model": 32}
    (resized / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"has shape \[66, 16\] in the weights, but \[66, 32\]"):
        load_model(resized, "cpu")


UNKNOWN_SYMBOL = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {},
}
"""A template with a symbol that it does not define, with which the Rust code of tokenizers panics."""


@pytest.mark.parametrize(
    ("kind", "file", "change", "message"),
    [
        *(
            ("marian", "vocab.json", {"▁a": number}, "vocab.json: not a vocabulary: ▁a: ")
            for number in ("7", -1, 1.5, None, [3], 2**31, 10**30)
        ),
        ("marian", "vocab.json", {"▁a": 5000}, "does not belong to"),
        *(
            ("bart", "generation_config.json", {name: number}, name)
            for name in ("decoder_start_token_id", "forced_bos_token_id", "eos_token_id", "min_length")
            for number in ("two", 2**63, 10**30, -7, [2.5])
        ),
        ("m2m100", "added_tokens.json", {"<x>": "9"}, "added_tokens.json: not a vocabulary: <x>: "),
        ("bart", "generation_config.json", {"decoder_start_token_id": 5000}, "decoder_start_token_id = 5000"),
        ("bart", "generation_config.json", {"bad_words_ids": [[10**30]]}, "bad_words_ids"),
        ("bart", "generation_config.json", {"suppress_tokens": ["a"]}, "suppress_tokens"),
        ("bart", "generation_config.json", {"length_penalty": "long"}, "length_penalty"),
        ("bart", "tokenizer_config.json", {"model_max_length": "long"}, "the tokenizer are not valid"),
        ("bart", "tokenizer_config.json", {"added_tokens_decoder": {"x": 1}}, "tokenizer"),
        ("bart", "tokenizer.json", {"model": None}, "tokenizer"),
        ("bart", "tokenizer.json", {"post_processor": UNKNOWN_SYMBOL}, "tokenizer"),
        ("bart", "config.json", {"d_model": "wide"}, "transformers cannot"),
    ],
)
def test_wrong_values_end_in_one_message(
    model_dir: ModelDir, tmp_path: Path, kind: str, file: str, change: dict[str, Any], message: str
) -> None:
    path = shutil.copytree(model_dir(kind), directory := tmp_path / "copy") / file
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises((CheckpointError, ConfigError), match=f"copy.*({re.escape(message)}|{message})"):
        load_model(directory, "cpu")


def test_tokens_with_an_id_beyond_the_vocabulary_end_in_one_message(
    model_dir: ModelDir, tmp_path: Path
) -> None:
    path = shutil.copytree(model_dir("m2m100"), directory := tmp_path / "copy") / "vocab.json"
    ids = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(ids | dict.fromkeys(ids.keys() - {"<s>", "<pad>", "</s>", "<unk>"}, 5000)))
    text = load_model(directory, "cpu").text
    with pytest.raises(DataError, match=r"copy.*the files of the tokenizer are not valid"):
        text.source.encode("ein")


@pytest.mark.parametrize(
    "file", ["config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"]
)
@pytest.mark.parametrize("text", ["[" * 3000, '{"a": ' * 900 + "1" + "}" * 900, "7", "", "\udc80"])
def test_other_json_ends_in_one_message(model_dir: ModelDir, tmp_path: Path, file: str, text: str) -> None:
    directory = shutil.copytree(model_dir("bart"), tmp_path / "copy")
    (directory / file).write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises((CheckpointError, ConfigError), match="copy"):
        load_model(directory, "cpu")
