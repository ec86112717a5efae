"""Metrics of translations and alignments, and significance tests. Does not use models or torch.

A metric is registered by its name (`regard.metrics.base`); `regard.evaluate` computes it.
"""
