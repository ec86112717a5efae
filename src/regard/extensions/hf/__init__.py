"""Hugging Face: translation models, tokenizers, pre-training and attention functions."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Train": ["regard.extensions.hf.command:pretrain_command"]},
    parts={
        "model": ["regard.extensions.hf.systems"],
        "tokenizer": ["regard.extensions.hf.tokenizer", "regard.extensions.hf.prompt_tokenizer"],
    },
    hooks={
        "attention_functions": "regard.extensions.hf.attention_functions",
        "model_format": "regard.extensions.hf.model_format",
        "missing_directory_hint": "regard.extensions.hf.files:missing_directory_hint",
        "text_encoder": "regard.extensions.hf.text_encoder:TextEncoder",
    },
)
