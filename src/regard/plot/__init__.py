"""Attention maps as SVG of our own and in a terminal, and every other figure by matplotlib.

A function `plot_*` plots on matplotlib axes. Other functions return a `Figure`, which a notebook displays and
which is saved as SVG, PDF or PNG. matplotlib (extra `plot`) is imported only when it plots.
"""

from regard.plot.analyses import (
    plot_accuracy_by_entropy,
    plot_coverage,
    plot_entropy,
    plot_error_counts,
    plot_length,
)
from regard.plot.attention import plot_attention, plot_heatmap
from regard.plot.charts import plot_training
from regard.plot.figure import Figure
from regard.plot.heatmap import attention_heatmap, difference_heatmap
from regard.plot.terminal import TerminalMap, terminal_map
from regard.plot.word_attention import plot_history, plot_self_attention

__all__ = [
    "Figure",
    "TerminalMap",
    "attention_heatmap",
    "difference_heatmap",
    "plot_accuracy_by_entropy",
    "plot_attention",
    "plot_coverage",
    "plot_entropy",
    "plot_error_counts",
    "plot_heatmap",
    "plot_history",
    "plot_length",
    "plot_self_attention",
    "plot_training",
    "terminal_map",
]
