"""The tokenizers, by the library that they use; see `regard.data.tokenizers.base`."""
