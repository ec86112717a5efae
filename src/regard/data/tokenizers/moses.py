"""The tokenizer of Moses (Koehn et al. 2007), through sacremoses.

Nothing is escaped: `'` stays `'`, not `&apos;`, because the escapes guard the phrase tables of Moses alone
and would enter the vocabulary. For the same reason decoding leaves an `&apos;` alone: it was in the text.
Text that carries the escapes already, as some published corpora do, is best read with kind `words`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.tokenizers.base import Tokenizer

__all__ = ["MosesConfig", "MosesTokenizer"]


@config
class MosesConfig:
    """Moses tokens: punctuation split off by the rules of a language."""

    kind: Literal["moses"] = option(default="moses", help="The tokenizer of Moses.")
    language: str = option(
        default="en", help="The language whose rules are used, as a two-letter code.", pattern="^[a-z]{2,3}$"
    )


class MosesTokenizer(Tokenizer):
    """Moses tokens; decoding joins them by the detokenizer's rules, which is not always the text before."""

    def __init__(self, config: MosesConfig) -> None:
        """Nothing is learned: the rules of the language come with the library."""
        # Imported here: the library compiles hundreds of patterns at import.
        from sacremoses import MosesDetokenizer
        from sacremoses import MosesTokenizer as Rules

        self.config = config
        self._tokenizer = Rules(lang=config.language)
        self._detokenizer = MosesDetokenizer(lang=config.language)

    def __reduce__(self) -> tuple[type["MosesTokenizer"], tuple[MosesConfig]]:
        """Rebuild from the configuration: the rules hold compiled patterns, slow to send."""
        return MosesTokenizer, (self.config,)

    def pretokenize(self, line: str) -> list[str]:
        """The Moses tokens of the line."""
        tokens = self._tokenizer.tokenize(line, escape=False)
        return tokens if isinstance(tokens, list) else tokens.split()

    def decode(self, tokens: Sequence[str]) -> str:
        """The detokenised text."""
        return self._detokenizer.detokenize(list(tokens), unescape=False)

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""
