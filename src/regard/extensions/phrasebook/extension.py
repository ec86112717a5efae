"""The parts and commands of the built-in corpus."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Start": ["regard.extensions.phrasebook.command:phrasebook"]},
    hooks={"example_corpus": "regard.extensions.phrasebook.corpus:write_splits"},
)
