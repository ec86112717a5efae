"""The lexicon: tab-separated tables, and the entries with all inflected forms that are read from them."""

from regard.extensions.phrasebook.lexicon.entries import Adjective, Lexicon, Noun, Verb, lexicon

__all__ = ["Adjective", "Lexicon", "Noun", "Verb", "lexicon"]
