"""Kinds of sequence-to-sequence models fit their rows in the table of the documentation."""

# pyright: basic

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from hf import tiny
from models.hf.kind_checks import PAGE, check_kind, prepare_generation, read_table
from models.hf.kinds import BART, OTHER_INPUT, SMALL, UNCHECKED, save_kind
from regard.errors import ConfigError, UsageError
from regard.generation.translator import Translator
from regard.runs.experiment import load_model


@pytest.fixture(autouse=True)
def without_progress_bars() -> None:
    logging.disable_progress_bar()


# One kind for each way through the program: the tokenizers, the attention interface with scaled, unscaled,
# capped and grouped scores, attention of the library with and without maps, and experts. All kinds run in
# `benchmarks/hf_kinds.py --table`.
QUICK = (
    *("bart", "encoder-decoder", "fsmt", "led", "m2m_100", "marian", "prophetnet", "switch_transformers"),
    *("t5", "t5gemma", "t5gemma2"),
)


@pytest.mark.parametrize("kind", QUICK)
def test_kind_does_what_the_documentation_states(kind: str, tmp_path: Path) -> None:
    model = save_kind(kind, tmp_path / kind)
    prepare_generation(tmp_path / kind, model.get_output_embeddings().weight.shape[0])
    assert check_kind(kind, tmp_path / kind).to_markdown() == read_table()[kind]


def test_table_lists_every_kind_that_the_library_maps() -> None:
    assert {*SMALL, *OTHER_INPUT, *UNCHECKED} == set(MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    assert list(read_table()) == list(SMALL)
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in (*OTHER_INPUT, *UNCHECKED))


def test_kind_without_attention_maps_refuses_only_what_needs_them(tmp_path: Path) -> None:
    save_kind("prophetnet", tmp_path)
    one = load_model(tmp_path, "cpu")
    translator = Translator(one.model, one.text, one.config.generation)
    assert {"attention", "self_attention"}.isdisjoint(translator.capabilities)
    assert {"score", "sample", "terms", "prefix", "mbr"} <= translator.capabilities
    with pytest.raises(UsageError, match="--show-attention: not supported by"):
        translator.require("attention", "--show-attention")
    with pytest.raises(ConfigError, match="does not use the attention interface"):
        load_model(tmp_path, "cpu", overrides=["model.attention.normalizer=sparsemax"])


def test_terms_inside_a_line_have_the_tokens_of_byte_level_bpe(tmp_path: Path) -> None:
    tiny.bart(tmp_path)
    tokenizer = load_model(tmp_path, "cpu").text.target.tokenizer
    inside = tokenizer.encode_inside("dog")
    assert inside is not None and tokenizer.decode(["a", *inside]) == "a dog"
    assert tokenizer.encode("a dog") == [*tokenizer.encode("a"), *inside]


def test_target_text_of_fsmt_has_the_ids_of_the_target_vocabulary(tmp_path: Path) -> None:
    """The tokenizer of FSMT encodes with the source vocabulary only, although models have two."""
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [form for letter in tiny.LETTERS for form in (letter, f"{letter}</w>")]
    source = {token: number for number, token in enumerate([*names, *letters])}
    target = {token: number for number, token in enumerate([*names, *reversed(letters[10:])])}
    for name, content in (("src", json.dumps(source)), ("tgt", json.dumps(target)), ("merges", "#\n")):
        (tmp_path / name).write_text(content)
    tokenizer = transformers.FSMTTokenizer(
        langs=["de", "en"],
        src_vocab_file=str(tmp_path / "src"),
        tgt_vocab_file=str(tmp_path / "tgt"),
        merges_file=str(tmp_path / "merges"),
    )
    tokenizer.save_pretrained(tmp_path / "model")
    sizes = {"src_vocab_size": len(source), "tgt_vocab_size": len(target)}
    config = transformers.FSMTConfig(langs=["de", "en"], **BART, **sizes)
    transformers.FSMTForConditionalGeneration(config).save_pretrained(tmp_path / "model")
    text = load_model(tmp_path / "model", "cpu").text
    for side, vocabulary in ((text.source, source), (text.target, target)):
        tokens = side.tokenize("the cat")
        ids = [side.tokenizer.library_ids[number] for number in side.encode("the cat")]
        assert ids == [vocabulary[token] for token in tokens] and len(ids) == 6
