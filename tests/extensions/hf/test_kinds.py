"""Kinds of sequence-to-sequence models fit their rows in the table of the documentation."""

# pyright: basic

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from extensions.hf import tiny
from extensions.hf.kind_checks import PAGE, check_kind, prepare_generation, read_table
from extensions.hf.kinds import OTHER_INPUT, SMALL, UNCHECKED, UNSUPPORTED, save_kind
from regard.errors import ConfigError
from regard.runs.loading import load_model


@pytest.fixture(autouse=True)
def without_progress_bars() -> None:
    logging.disable_progress_bar()


# One kind for each way through the program: the tokenizers, the attention interface with scaled, unscaled,
# capped and grouped scores, and experts. All kinds run in
# `benchmarks/hf_kinds.py --table`.
QUICK = (*("bart", "encoder-decoder", "m2m_100", "marian", "switch_transformers", "t5", "t5gemma"),)


@pytest.mark.parametrize("kind", QUICK)
def test_kind_does_what_the_documentation_states(kind: str, tmp_path: Path) -> None:
    model = save_kind(kind, tmp_path / kind)
    prepare_generation(tmp_path / kind, model.get_output_embeddings().weight.shape[0])
    assert check_kind(kind, tmp_path / kind).to_markdown() == read_table()[kind]


def test_table_lists_every_kind_that_the_library_maps() -> None:
    assert {*SMALL, *UNSUPPORTED, *OTHER_INPUT, *UNCHECKED} == set(
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    )
    assert list(read_table()) == list(SMALL)
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in (*UNSUPPORTED, *OTHER_INPUT, *UNCHECKED))


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_kind_without_the_attention_interface_is_refused_with_the_reason(kind: str, tmp_path: Path) -> None:
    save_kind(kind, tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be used for step-by-step .*: .*attention interface"):
        load_model(tmp_path, "cpu")


def test_terms_inside_a_line_have_the_tokens_of_byte_level_bpe(tmp_path: Path) -> None:
    tiny.bart(tmp_path)
    tokenizer = load_model(tmp_path, "cpu").text.target.tokenizer
    inside = tokenizer.encode_inside("dog")
    assert inside is not None and tokenizer.decode(["a", *inside]) == "a dog"
    assert tokenizer.encode("a dog") == [*tokenizer.encode("a"), *inside]
