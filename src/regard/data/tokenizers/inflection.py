"""The source sequences of morphological inflection: the characters of a lemma, then morphological features.

The text is `LEMMA TAB FEATURES`, which `CorpusConfig.columns` creates from two columns of a table. Features
are separated by `,`, `;` or spaces: `case=nominative,number=plural` (Durrett & DeNero, 2013), `N;NOM;PL`
(UniMorph). The token of a feature is `+` and the feature, so that it differs from any character token.
"""

import re
from collections.abc import Sequence
from typing import Literal

from regard.config import configclass, option
from regard.data.punctuation import TextFormat, TextFormatDetector
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.registry import register_tokenizer
from regard.data.tokenizers.words import CharactersConfig, CharactersTokenizer

__all__ = ["InflectionConfig", "InflectionTokenizer"]

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

    def __init__(self, config: InflectionConfig) -> None:
        """Store the configuration."""
        self.config = config
        self._lemma = CharactersTokenizer(CharactersConfig())

    @classmethod
    def detect_format(
        cls, config: InflectionConfig, detector: TextFormatDetector, language: str | None
    ) -> TextFormat:
        """Return the format; lemmas and features have no punctuation to separate."""
        return TextFormat(language=language)

    def pretokenize(self, line: str) -> list[str]:
        """Return the characters of the lemma and the features."""
        lemma, _, features = line.partition("\t")
        found = [f"{FEATURE_PREFIX}{feature}" for feature in _FEATURE_SEPARATOR.split(features) if feature]
        return [*self._lemma.pretokenize(lemma), *found]

    def format_error(self, line: str) -> str | None:
        """Return a message if the lemma or the features are missing."""
        lemma, tab, features = line.partition("\t")
        if not line.strip() or (lemma.strip() and _FEATURE_SEPARATOR.sub("", features)):
            return None
        # Name the first missing part, from left to right.
        missing = "no tab" if not tab else "no lemma" if not lemma.strip() else "no features"
        return f"{missing} in {line[:60]!r}; expected a lemma, a tab, and features separated by , or ;"

    def symbols(self, tokens: Sequence[str]) -> list[str]:
        """Return the feature tokens."""
        return [token for token in tokens if len(token) > 1 and token.startswith(FEATURE_PREFIX)]

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the lemma, a tab, and the features separated by `;`."""
        features = self.symbols(tokens)
        lemma = self._lemma.decode([token for token in tokens if token not in features])
        if not features:
            return lemma
        return f"{lemma}\t{';'.join(feature.removeprefix(FEATURE_PREFIX) for feature in features)}"
