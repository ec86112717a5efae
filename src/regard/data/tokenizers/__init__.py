"""The tokenizers, with one module per type; use them through `regard.data.tokenizer_factory`."""
