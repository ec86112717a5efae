"""The parts and commands of the reproduction of tables from papers."""

from regard.config.extensions import Extension

EXTENSION = Extension(commands={"Evaluate and inspect": ["regard.extensions.reproduce.command:reproduce"]})
