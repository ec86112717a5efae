"""Small decoder-only models, created from configurations of transformers and saved by its own code."""

# pyright: basic

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tiny
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

LANGUAGES = {"source_language": "German", "target_language": "English"}
CHAT_TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] | trim }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
)


def spaced_tokenizer() -> Any:
    """Return a tokenizer like that of Llama 2: a start symbol, spaces as parts of words, single bytes."""
    names = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted({*tiny.LETTERS, *"TranslateGermanEnglishfto:"})
    tokens = [*names, *byte_tokens, "▁", *letters, *(f"▁{letter}" for letter in letters)]
    merges = [("▁", letter) for letter in letters]
    model = models.BPE(
        {token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", byte_fallback=True
    )
    made = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def start_tokenizer() -> Any:
    """Return a byte-level tokenizer with a start symbol, like that of OPT."""
    tokenizer = tiny.bpe_tokenizer()
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer


def chat_tokenizer() -> Any:
    """Return a byte-level tokenizer with a chat template, like that of Qwen 2."""
    tokenizer = tiny.bpe_tokenizer(around=False)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _shape(heads: int, **options: Any) -> dict[str, Any]:
    return {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": heads, **options}


_MODERN = _shape(4, intermediate_size=24, max_position_embeddings=128, num_key_value_heads=2)
_PLAIN = {"bos_token_id": 0, "eos_token_id": 0}
_SPACED = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
FAMILIES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    # Learned positions, and neither a start symbol nor one for padding.
    "gpt2": (
        partial(tiny.bpe_tokenizer, around=False),
        _shape(2, n_positions=96, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **_PLAIN),
    ),
    # Rotary positions and grouped queries.
    "llama": (spaced_tokenizer, _MODERN | _SPACED),
    "qwen2": (chat_tokenizer, _MODERN | _PLAIN),
    # Capped scores, and layers that attend to the last tokens only.
    "gemma2": (
        spaced_tokenizer,
        _MODERN | _SPACED
        | {"head_dim": 4, "sliding_window": 24, "query_pre_attn_scalar": 4, "attn_logit_softcapping": 2.0},
    ),
    # Counts its positions from the attention mask.
    "opt": (
        start_tokenizer,
        _shape(
            2, word_embed_proj_dim=16, ffn_dim=24, max_position_embeddings=96, init_std=0.4, bos_token_id=0,
            pad_token_id=1, eos_token_id=2,
        ),
    ),
    # Computes its attention itself and has no positions.
    "bloom": (partial(tiny.bpe_tokenizer, around=False), _shape(2, pad_token_id=0, **_PLAIN)),
}  # fmt: skip
"""The tokenizer and the sizes of a model of each family."""


def save(name: str, directory: Path) -> None:
    """Save a model whose translations end, with its tokenizer and the languages of its prompt."""
    build_tokenizer, options = FAMILIES[name]
    tokenizer = build_tokenizer()
    config = transformers.AutoConfig.for_model(
        name, vocab_size=len(tokenizer), **{"initializer_range": 0.4, "tie_word_embeddings": False, **options}
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        # A larger logit, positive or negative, so that the end symbol is sometimes the top-scoring one.
        model.get_output_embeddings().weight[config.eos_token_id] *= 2
    tokenizer.save_pretrained(directory)
    model.eval().save_pretrained(directory)
    (directory / "regard_prompt.json").write_text(json.dumps(LANGUAGES))
