"""Attention maps as pictures, in a terminal and as SVG, and the HTML report."""

from regard.report.heatmap import plot_attention
from regard.report.terminal import TerminalMap, terminal_map

__all__ = ["TerminalMap", "plot_attention", "terminal_map"]
