"""Attention maps as our own SVG and in a terminal, and every other figure by matplotlib."""

from regard.plotting.svg.heatmap import attention_svg
from regard.plotting.terminal import TerminalMap, terminal_map

__all__ = ["TerminalMap", "attention_svg", "terminal_map"]
