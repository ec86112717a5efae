"""What CTranslate2 adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.ctranslate2.command:export"]},
    hooks={"engine": "regard.extensions.ctranslate2.translator:ExportedTranslator"},
)
