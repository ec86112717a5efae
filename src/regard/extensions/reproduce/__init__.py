"""Reproduction of tables from papers: `regard reproduce`."""

from regard.config.extensions import Extension

EXTENSION = Extension(commands={"Evaluate and inspect": ["regard.extensions.reproduce.command:reproduce"]})
