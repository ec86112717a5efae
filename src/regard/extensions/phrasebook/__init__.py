"""The built-in corpus: German-English pairs from a synchronous grammar, with gold links and fertilities.

The English sentence is a function of the German sentence, so that a model can learn the translation
perfectly. The corpus contains the constructions that decoders tend to drop or to repeat (lists, repeated
words, compounds, contractions, separable verbs, reflexives), with exact gold alignments.

Recommended reading order: `morphology`, `lexicon` (random choices, phrases, tables and entries),
`noun_phrases`, `verb_group`, `clauses`, `complements`, `clause_builder`, `sentences`, `patterns`, `corpus`.
"""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Start": ["regard.extensions.phrasebook.command:phrasebook"]},
    hooks={"example_corpus": "regard.extensions.phrasebook.corpus:write_splits"},
)
