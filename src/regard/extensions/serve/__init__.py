"""The web page and the JSON API of `regard serve`."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.serve.command:serve"]},
)
