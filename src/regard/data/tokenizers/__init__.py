"""The tokenizers, one family a file; `regard.data.tokenizer` is their front door."""
