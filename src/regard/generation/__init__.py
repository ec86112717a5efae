"""Decoding: beam search, sampling, ensembles, forced decoding, and translators for lines of text."""
