"""Reproduction of tables from papers: `regard reproduce`."""
