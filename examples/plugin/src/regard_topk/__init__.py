"""A plugin for regard: an attention mechanism, a loss and a metric. Importing it registers them."""

from regard_topk import attention, loss, metric

__all__ = ["attention", "loss", "metric"]
