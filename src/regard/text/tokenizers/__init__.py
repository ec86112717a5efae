"""The tokenizers, by the library that they use; see `regard.text.tokenizers.base`."""
