"""Translation of exported models with CTranslate2, a C++ inference engine."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Translate": ["regard.extensions.ctranslate2.command:export"]},
    hooks={"engine": "regard.extensions.ctranslate2.translator:ExportedTranslator"},
)
