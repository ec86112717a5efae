"""Tokenizers without learned parameters: words, characters, actions of a pointer, and inflection.

The target sequences of hard monotonic attention (Aharoni & Goldberg, 2017) consist of characters to write and
of steps along the source: `K→l→ö→ß→e` writes K, steps to the next source character, writes l, and so on.
`regard actions` creates such text from aligned pairs. Decoding removes the steps, so that translations are
plain text.

The source text of morphological inflection is `LEMMA TAB FEATURES`, which `CorpusConfig.columns` creates from
two columns of a table. Features are separated by `,`, `;` or spaces: `case=nominative,number=plural` (Durrett
& DeNero, 2013), `N;NOM;PL` (UniMorph). The token of a feature is `+` and the feature, so that it differs from
any character token.
"""

import re
from collections.abc import Sequence
from typing import Literal

from regard.config import configclass, option
from regard.text.tokenizers.base import Tokenizer, register_tokenizer
from regard.text.words import normalize_whitespace, split_whitespace

SPACE_MARK = "\u2581"
"""The character U+2581, which represents a space in tokens, as in SentencePiece."""


@configclass
class WordsConfig:
    """Words separated by ASCII white space, for text that is already tokenized."""

    kind: Literal["words"] = option(default="words", help="Words separated by ASCII white space.")


@register_tokenizer("words", WordsConfig)
class WordsTokenizer(Tokenizer):
    """A tokenizer that splits text at white space."""

    def pretokenize(self, line: str) -> list[str]:
        """Return the words of a line."""
        return split_whitespace(line)

    def decode(self, tokens: Sequence[str]) -> str:
        """Join words with spaces."""
        return " ".join(tokens)


@configclass
class CharactersConfig:
    """Single characters; a space is represented by U+2581."""

    kind: Literal["characters"] = option(
        default="characters", help="Single characters; a space is a token, too."
    )


@register_tokenizer("characters", CharactersConfig)
class CharactersTokenizer(Tokenizer):
    """A tokenizer that splits text into characters (code points).

    A space becomes the token U+2581, and U+2581 in text becomes the token ` `. The mapping is reversible
    and makes spaces visible in tokens. A space belongs to the word after it.
    """

    word_start = re.compile(f"{SPACE_MARK}$")
    _swap = str.maketrans({" ": SPACE_MARK, SPACE_MARK: " "})

    def pretokenize(self, line: str) -> list[str]:
        """Return the characters of a line."""
        return list(normalize_whitespace(line).translate(self._swap))

    def decode(self, tokens: Sequence[str]) -> str:
        """Join characters to text."""
        return "".join(tokens).translate(self._swap)


STEP = "→"


@configclass
class ActionsConfig:
    """Characters to write and steps along the source."""

    kind: Literal["actions"] = option(
        default="actions",
        help="Characters to write and steps along the source, only for the target with attention `pointer`.",
    )


@register_tokenizer("actions", ActionsConfig)
class ActionsTokenizer(CharactersTokenizer):
    """A character tokenizer in which the arrow `→` is a step, part of a word; it always has the same id."""

    required_tokens = (STEP,)
    plain_text = True

    def decode(self, tokens: Sequence[str]) -> str:
        """Join the written characters to text."""
        return super().decode([token for token in tokens if token != STEP])

    def to_plain_text(self, line: str) -> str:
        """Return a line without its steps."""
        return line.replace(STEP, "")


_CHARACTERS = CharactersTokenizer(CharactersConfig())
"""The tokenizer of lemmas."""
FEATURE_PREFIX = "+"
"""Prefix of feature tokens."""
_FEATURE_SEPARATOR = re.compile(r"[,;\s]+")


@configclass
class InflectionConfig:
    """The characters of a lemma and the features of the requested form."""

    kind: Literal["inflection"] = option(
        default="inflection",
        help="The characters of a lemma and, after a tab, one token per morphological feature. Features are "
        "separated by commas, semicolons or spaces.",
    )


@register_tokenizer("inflection", InflectionConfig)
class InflectionTokenizer(Tokenizer):
    """A tokenizer for inflection tables: characters before the tab, features after it.

    Every token counts as a word in alignments and for copying. Text without a tab is a lemma without
    features; `format_error` reports it.
    """

    tokens_are_words = True
    plain_text = True

    def pretokenize(self, line: str) -> list[str]:
        """Return the characters of the lemma and the features."""
        lemma, _, features = line.partition("\t")
        tokens = [f"{FEATURE_PREFIX}{feature}" for feature in _FEATURE_SEPARATOR.split(features) if feature]
        return [*_CHARACTERS.pretokenize(lemma), *tokens]

    def format_error(self, line: str) -> str | None:
        """Return a message if the lemma or the features are missing."""
        lemma, tab, features = line.partition("\t")
        if not line.strip() or (lemma.strip() and _FEATURE_SEPARATOR.sub("", features)):
            return None
        # Name the first missing part, from left to right.
        missing = "no tab" if not tab else "no lemma" if not lemma.strip() else "no features"
        return f"{missing} in {line[:60]!r}; expected a lemma, a tab, and features separated by , or ;"

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the lemma, a tab, and the features separated by `;`."""
        features = [token for token in tokens if len(token) > 1 and token.startswith(FEATURE_PREFIX)]
        lemma = _CHARACTERS.decode([token for token in tokens if token not in features])
        if not features:
            return lemma
        return f"{lemma}\t{';'.join(feature.removeprefix(FEATURE_PREFIX) for feature in features)}"
