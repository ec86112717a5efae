"""What the reproduction of tables from papers adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"Evaluate and inspect": ["regard.extensions.reproduce.command:reproduce"]},
)
