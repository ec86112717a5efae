"""Hugging Face: translation models, tokenizers, pre-training and attention functions."""
