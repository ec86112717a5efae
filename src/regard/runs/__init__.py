"""Runs and their model directories: configuration, training, loading, averaging and pre-training."""
