"""Files and formats of text, words, tokenizers, vocabularies and links. Does not import torch."""
