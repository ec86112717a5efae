"""Formats of files that hold a text and its translation; see `regard.text.formats.base`."""
