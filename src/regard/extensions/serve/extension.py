"""The parts and commands of the server."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.serve.command:serve"]},
)
