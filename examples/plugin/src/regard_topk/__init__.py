"""A plugin for regard: an attention mechanism and a metric. Importing it registers them."""

from regard_topk import attention, metric

__all__ = ["attention", "metric"]
