"""Text on its way into a model: files, tokenizers, vocabularies, prepared arrays and batches."""
