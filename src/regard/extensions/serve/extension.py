"""What the server adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.serve.command:serve"]},
)
