"""Small decoder-only models, created from configurations of transformers and saved by its own code."""

# pyright: basic

import json
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
SHAPE: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 128,
}  # fmt: skip


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


def gpt2(directory: Path) -> None:
    """Save a model like GPT-2: learned positions, and neither a start symbol nor one for padding."""
    tokenizer = tiny.bpe_tokenizer(around=False)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=96, bos_token_id=0,
        eos_token_id=0, initializer_range=0.4, tie_word_embeddings=False, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    )  # fmt: skip
    _save(transformers.GPT2LMHeadModel(config), tokenizer, directory)


def llama(directory: Path) -> None:
    """Save a model like Llama: rotary positions and grouped queries."""
    _save_spaced(transformers.LlamaConfig, directory, num_key_value_heads=2)


def qwen2(directory: Path) -> None:
    """Save a model like Qwen 2, with a chat template."""
    tokenizer = tiny.bpe_tokenizer(around=False)
    tokenizer.chat_template = CHAT_TEMPLATE
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, num_key_value_heads=2,
        initializer_range=0.4, tie_word_embeddings=False, **SHAPE,
    )  # fmt: skip
    _save(transformers.Qwen2ForCausalLM(config), tokenizer, directory)


def gemma2(directory: Path) -> None:
    """Save a model like Gemma 2: capped scores, and layers that attend to the last tokens only."""
    _save_spaced(
        transformers.Gemma2Config, directory, num_key_value_heads=2, head_dim=4, sliding_window=24,
        query_pre_attn_scalar=4, attn_logit_softcapping=2.0,
    )  # fmt: skip


def opt(directory: Path) -> None:
    """Save a model like OPT, which counts its positions from the attention mask."""
    tokenizer = tiny.bpe_tokenizer()
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    config = transformers.OPTConfig(
        vocab_size=len(tokenizer), hidden_size=16, word_embed_proj_dim=16, num_hidden_layers=2, ffn_dim=24,
        num_attention_heads=2, max_position_embeddings=96, bos_token_id=0, pad_token_id=1, eos_token_id=2,
        init_std=0.4, tie_word_embeddings=False,
    )  # fmt: skip
    _save(transformers.OPTForCausalLM(config), tokenizer, directory)


def bloom(directory: Path) -> None:
    """Save a model like BLOOM, which computes its attention itself and has no positions."""
    tokenizer = tiny.bpe_tokenizer(around=False)
    config = transformers.BloomConfig(
        vocab_size=len(tokenizer), hidden_size=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        pad_token_id=0, initializer_range=0.4, tie_word_embeddings=False,
    )  # fmt: skip
    _save(transformers.BloomForCausalLM(config), tokenizer, directory)


FAMILIES = {"gpt2": gpt2, "llama": llama, "qwen2": qwen2, "gemma2": gemma2, "opt": opt, "bloom": bloom}


def _save_spaced(kind: Any, directory: Path, **options: Any) -> None:
    tokenizer = spaced_tokenizer()
    config = kind(
        vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=2, pad_token_id=None, initializer_range=0.4,
        tie_word_embeddings=False, **SHAPE, **options,
    )  # fmt: skip
    _save(transformers.AutoModelForCausalLM.from_config(config), tokenizer, directory)


def _save(model: Any, tokenizer: Any, directory: Path) -> None:
    """Save a model whose translations end, with its tokenizer and the languages of its prompt."""
    end = model.config.eos_token_id
    with torch.no_grad():
        # A larger logit, positive or negative, so that the end symbol is sometimes the top-scoring one.
        model.get_output_embeddings().weight[end] *= 2
    tokenizer.save_pretrained(directory)
    model.eval().save_pretrained(directory)
    (directory / "regard_prompt.json").write_text(json.dumps(LANGUAGES))
