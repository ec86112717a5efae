"""What phrase-based translation adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"Alignment and statistical models": ["regard.extensions.smt.command:lm"]},
    parts={"model": ["regard.extensions.smt.model"]},
)
