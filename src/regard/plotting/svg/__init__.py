"""Attention maps as self-contained SVG text, without scripts, external fonts or styles."""
