"""What the built-in corpus adds to the package."""

from regard.config.extensions import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"Start": ["regard.extensions.phrasebook.command:phrasebook"]},
    hooks={"example_corpus": "regard.extensions.phrasebook.corpus:write_splits"},
)
