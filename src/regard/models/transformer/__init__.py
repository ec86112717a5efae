"""The Transformer of Vaswani et al. (2017)."""
