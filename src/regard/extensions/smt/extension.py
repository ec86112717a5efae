"""The parts and commands of phrase-based translation."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Alignment and statistical models": ["regard.extensions.smt.command:lm"]},
    parts={"model": ["regard.extensions.smt.model"]},
)
