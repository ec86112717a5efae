"""Inflection: a lemma's characters, then a symbol for each feature of the form that is wanted.

The text is `LEMMA TAB FEATURES`, as a table's columns are joined (`CorpusConfig.columns`). Features stand
between `,`, `;` or spaces: `case=nominative,number=plural` (Durrett & DeNero 2013), `N;NOM;PL` (UniMorph).
A feature's token is `+` and the feature, so that it is never a character, which is one code point long.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.words import CharactersConfig, CharactersTokenizer

__all__ = ["InflectionConfig", "InflectionTokenizer"]

MARK = "+"
"""Opens the token of a feature."""
_BETWEEN = re.compile(r"[,;\s]+")


@config
class InflectionConfig:
    """A lemma's characters and the features of the form that is wanted."""

    kind: Literal["inflection"] = option(
        default="inflection", help="The characters of a lemma, and after a tab features, a symbol each."
    )


class InflectionTokenizer(Tokenizer):
    """Characters up to the tab, features after it; every token is a word, for links and for copying.

    Text without a tab is a lemma without features; `problem` tells of it where lines can be named.
    """

    apart = True

    def __init__(self, config: InflectionConfig) -> None:
        """Nothing is learned: the configuration is enough."""
        self.config = config
        self._lemma = CharactersTokenizer(CharactersConfig())

    def pretokenize(self, line: str) -> list[str]:
        """The characters of the lemma and the features."""
        lemma, _, features = line.partition("\t")
        found = [f"{MARK}{feature}" for feature in _BETWEEN.split(features) if feature]
        return [*self._lemma.pretokenize(lemma), *found]

    def problem(self, line: str) -> str | None:
        """A column that is missing or empty."""
        lemma, tab, features = line.partition("\t")
        if not line.strip() or (lemma.strip() and _BETWEEN.sub("", features)):
            return None
        missing = "no tab" if not tab else "no lemma" if not lemma.strip() else "no features"
        return f"{missing} in {line[:60]!r}; an inflection is a lemma, a tab, and features between , or ;"

    def symbols(self, tokens: Sequence[str]) -> list[str]:
        """The features."""
        return [token for token in tokens if len(token) > 1 and token.startswith(MARK)]

    def decode(self, tokens: Sequence[str]) -> str:
        """The lemma, a tab, and the features with `;` between them."""
        features = self.symbols(tokens)
        lemma = self._lemma.decode([token for token in tokens if token not in features])
        if not features:
            return lemma
        return f"{lemma}\t{';'.join(feature.removeprefix(MARK) for feature in features)}"

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""
