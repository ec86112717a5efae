"""Hugging Face: translation models, tokenizers, pre-training, text generation and attention functions."""
