"""Attention maps as pictures, in a terminal and as SVG, and the HTML report."""

from regard.report.heatmap import svg_map
from regard.report.terminal import TerminalMap, terminal_map

__all__ = ["TerminalMap", "svg_map", "terminal_map"]
