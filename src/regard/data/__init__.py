"""Data loading: reading of text files, tokenizers, vocabularies, preprocessing, and batching."""
