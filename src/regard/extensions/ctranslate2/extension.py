"""The parts and commands of CTranslate2."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.ctranslate2.command:export"]},
    hooks={"engine": "regard.extensions.ctranslate2.translator:ExportedTranslator"},
)
