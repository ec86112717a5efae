"""Hugging Face: translation models, tokenizers, pre-training, attention functions, and the Hub."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    names={"upload": "regard.extensions.hf.hub"},
    commands={
        "Train": [
            "regard.extensions.hf.command:pretrain_command",
            "regard.extensions.hf.command:upload_command",
        ]
    },
    parts={
        "model": ["regard.extensions.hf.systems"],
        "tokenizer": ["regard.extensions.hf.tokenizer", "regard.extensions.hf.prompt_tokenizer"],
    },
    hooks={
        "download": "regard.extensions.hf.hub:download",
        "attention_functions": "regard.extensions.hf.attention_functions",
        "model_format": "regard.extensions.hf.model_format",
        "text_encoder": "regard.extensions.hf.text_encoder:TextEncoder",
    },
)
