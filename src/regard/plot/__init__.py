"""Figures of attention maps and analyses by matplotlib, and attention maps in a terminal.

Functions return a `Figure`, which a notebook displays, which is saved as SVG, PDF or PNG, and of which
`plot_on` plots a panel on matplotlib axes. matplotlib (extra `plot`) is imported only when it plots.
"""

from regard.plot.figure import Figure
from regard.plot.heatmap import attention_heatmap, difference_heatmap
from regard.plot.terminal import TerminalMap, terminal_map

__all__ = ["Figure", "TerminalMap", "attention_heatmap", "difference_heatmap", "terminal_map"]
