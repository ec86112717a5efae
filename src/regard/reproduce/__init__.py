"""The papers' tables, run again: `regard reproduce`."""
