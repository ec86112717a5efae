"""One small model of each sequence-to-sequence kind of transformers, made from its configuration.

`SMALL` and `UNSUPPORTED` have an entry for every text-to-text kind that `AutoModelForSeq2SeqLM` maps.
"""

# pyright: basic

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from extensions.hf import tiny

__all__ = [
    "OTHER_INPUT",
    "SMALL",
    "UNCHECKED",
    "UNSUPPORTED",
    "pickle_shards",
    "save_kind",
    "t5_like",
]

BART: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": None, "init_std": 0.5, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip
T5: dict[str, Any] = {
    "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "initializer_factor": 1.0,
}  # fmt: skip
GEMMA: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "query_pre_attn_scalar": 8,
    "sliding_window": 32, "initializer_range": 0.5,
}  # fmt: skip


def bart_like(kind: str, **changes: Any) -> Callable[[Path], Any]:
    """Return a function that saves a model with the options of BART."""

    def save(directory: Path) -> Any:
        tokenizer = tiny.bpe_tokenizer()
        tokenizer.save_pretrained(directory)
        return _model(kind, **{**BART, "vocab_size": len(tokenizer), **changes})

    return save


def t5_like(kind: str, **changes: Any) -> Callable[[Path], Any]:
    """Return a function that saves a model with the options of T5."""

    def save(directory: Path) -> Any:
        tokenizer = tiny.unigram_tokenizer()
        tokenizer.save_pretrained(directory)
        return _model(kind, **{**T5, "vocab_size": len(tokenizer), **changes})

    return save


def t5gemma(directory: Path) -> Any:
    """Save the tokenizer, and return a T5Gemma model, whose query heads share keys and values."""
    tokenizer = tiny.unigram_tokenizer()
    tokenizer.save_pretrained(directory)
    size = {"vocab_size": len(tokenizer)}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}
    part = {**GEMMA, **size, **ids}
    return _model("t5gemma", encoder=part, decoder={**part, "cross_attention_hidden_size": 16}, **size, **ids)


def t5gemma2(directory: Path) -> Any:
    """Save the tokenizer, and return a T5Gemma 2 model, with one attention to source and target."""
    tokenizer = tiny.unigram_tokenizer()
    tokenizer.save_pretrained(directory)
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}
    part = {**GEMMA, "vocab_size": len(tokenizer), **ids}
    vision = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    encoder = {"text_config": part, "vision_config": vision, "mm_tokens_per_image": 4, **ids}
    return _model("t5gemma2", encoder=encoder, decoder=part, **ids)


def prophetnet(directory: Path) -> Any:
    """Save the tokenizer, and return a ProphetNet model, which predicts two tokens per step in training."""
    tokenizer = tiny.wordpiece_tokenizer()
    tokenizer.save_pretrained(directory)
    return _model(
        "prophetnet", vocab_size=len(tokenizer), hidden_size=16, encoder_ffn_dim=24, decoder_ffn_dim=24,
        num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=2, init_std=0.5,
        num_decoder_attention_heads=2, max_position_embeddings=64, ngram=2, pad_token_id=0, bos_token_id=2,
        eos_token_id=3, decoder_start_token_id=2,
    )  # fmt: skip


def encoder_decoder(directory: Path) -> Any:
    """Save the tokenizer, and return a BERT encoder with a BERT decoder."""
    tokenizer = tiny.wordpiece_tokenizer()
    tokenizer.save_pretrained(directory)
    part: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0, "initializer_range": 2.0,
    }  # fmt: skip
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.BertConfig(**part), transformers.BertConfig(**part)
    )
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    return transformers.EncoderDecoderModel(config)


def _model(kind: str, **options: Any) -> Any:
    config = transformers.AutoConfig.for_model(kind, **options)
    return transformers.AutoModelForSeq2SeqLM.from_config(config)


SMALL: dict[str, Callable[[Path], Any]] = {
    "bart": tiny.bart,
    "bigbird_pegasus": bart_like("bigbird_pegasus", attention_type="original_full"),
    "blenderbot": bart_like("blenderbot"),
    "blenderbot-small": bart_like("blenderbot-small"),
    "encoder-decoder": encoder_decoder,
    "longt5": t5_like("longt5"),
    "m2m_100": tiny.m2m100,
    "marian": tiny.marian,
    "mbart": tiny.mbart,
    "mt5": t5_like("mt5"),
    "nllb-moe": bart_like("nllb-moe", num_experts=2, decoder_sparse_step=2, encoder_sparse_step=2),
    "pegasus": bart_like("pegasus"),
    "pegasus_x": bart_like("pegasus_x", block_size=8, num_global_tokens=4),
    "plbart": bart_like("plbart"),
    "switch_transformers": t5_like("switch_transformers", num_experts=2),
    "t5": tiny.t5,
    "t5gemma": t5gemma,
    "umt5": t5_like("umt5"),
}  # fmt: skip
"""A function for each supported kind that saves its tokenizer, and returns the model."""
UNSUPPORTED: dict[str, Callable[[Path], Any]] = {
    "fsmt": bart_like("fsmt", langs=["de", "en"], src_vocab_size=320, tgt_vocab_size=320),
    "led": bart_like(
        "led", attention_window=8, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64
    ),
    "mvp": bart_like("mvp"),
    "prophetnet": prophetnet,
    "t5gemma2": t5gemma2,
}
"""The kinds that compute attention to the source without the library's attention interface."""

OTHER_INPUT = frozenset(
    {
        *("audioflamingo3", "glmasr", "granite_speech", "granite_speech_plus", "moss_transcribe_diarize"),
        *("musicflamingo", "nemo_speechlm", "qwen2_audio", "qwen3_asr", "vibevoice_asr", "voxtral"),
        "voxtral_realtime",
    }
)
"""The kinds of the mapping that are decoders with audio input, not translators of text."""
UNCHECKED = frozenset({"seamless_m4t", "seamless_m4t_v2"})
"""The kinds whose `generate` is not that of the library's other models."""


def save_kind(kind: str, directory: Path) -> Any:
    """Save a small model of a kind with random weights, and return it."""
    torch.manual_seed(0)
    directory.mkdir(parents=True, exist_ok=True)
    model = {**SMALL, **UNSUPPORTED}[kind](directory).eval()
    model.save_pretrained(directory)
    return model


def pickle_shards(directory: Path, state: dict[str, Any], size: int) -> None:
    """Write weights as pickled shards of `size` tensors, with their index."""
    names = list(state)
    parts = [names[i : i + size] for i in range(0, len(names), size)]
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        file = f"pytorch_model-{number:05d}-of-{len(parts):05d}.bin"
        torch.save({name: state[name] for name in part}, directory / file)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
