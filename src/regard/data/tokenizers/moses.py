"""The tokenizer of Moses (Koehn et al. 2007), through sacremoses.

Nothing is escaped: `'` stays `'`, not `&apos;`, because the escapes guard the phrase tables of Moses alone
and would enter the vocabulary. For the same reason decoding leaves an `&apos;` alone: it was in the text.
Text that carries the escapes already, as some published corpora do, is best read with kind `words`.

The detokenizer knows the marks of European scripts and straight quotes. Here it is given the full stops and
commas of other scripts (`है ।` would stay apart, though the danda follows its word without a space), and
typographic quotes are joined to their words before it runs. Scripts without spaces between words (Japanese,
Chinese, Thai) are refused: Moses cuts at spaces, and a whole clause would be a token.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.config import config, option
from regard.data.tokenizers.base import Tokenizer

__all__ = ["MosesConfig", "MosesTokenizer", "check_language"]

_FOLLOWING = ",.?!:;\\%}])" + "।॥۔؟،؛՞՝։።፣፤፥፦፧"
"""Marks that follow a word without a space: those of Moses, then those that it does not know."""
_QUOTES, _GUILLEMETS = "“”„", "«»"
_UNSPACED = {
    "bo": "Tibetan",
    "ja": "Japanese",
    "km": "Khmer",
    "lo": "Lao",
    "my": "Burmese",
    "th": "Thai",
    "yue": "Cantonese",
    "zh": "Chinese",
}
"""Languages whose words no space separates."""


def check_language(language: str) -> None:
    """Refuse a language whose words Moses cannot find.

    Raises:
        ValueError: if no space separates its words.
    """
    if language in _UNSPACED:
        raise ValueError(
            f"language = {language!r}: Moses cuts text at spaces, and {_UNSPACED[language]} has none between "
            "words: use kind 'sentencepiece', or separate the words with another tool and use kind 'words' "
            "(or 'bpe' with tokenized = true)"
        )


@config
class MosesConfig:
    """Moses tokens: punctuation split off by the rules of a language."""

    kind: Literal["moses"] = option(default="moses", help="The tokenizer of Moses.")
    language: str = option(
        default="en",
        help="The language whose rules are used, as a two-letter code; one that separates words by spaces.",
        pattern="^[a-z]{2,3}$",
    )

    def __post_init__(self) -> None:
        """Refuse a language without spaces between words."""
        check_language(self.language)


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
        self._detokenizer.IS_PUNCT = re.compile(f"^[{re.escape(_FOLLOWING)}]+$")

    def __reduce__(self) -> tuple[type["MosesTokenizer"], tuple[MosesConfig]]:
        """Rebuild from the configuration: the rules hold compiled patterns, slow to send."""
        return MosesTokenizer, (self.config,)

    def pretokenize(self, line: str) -> list[str]:
        """The Moses tokens of the line."""
        tokens = self._tokenizer.tokenize(line, escape=False)
        return tokens if isinstance(tokens, list) else tokens.split()

    def decode(self, tokens: Sequence[str]) -> str:
        """The detokenised text."""
        kinds = (_QUOTES,) if self.config.language == "fr" else (_QUOTES, _GUILLEMETS)
        return self._detokenizer.detokenize(_attach(tokens, kinds), unescape=False)

    def save(self, folder: Path, side: str) -> None:
        """Nothing was learned, nothing is written."""


def _attach(tokens: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Join typographic quotes to the words that they belong to.

    Of quotes of a kind, the first opens and the next closes, whichever they are: `„x“`, `“x”`, `”x”`, `»x«`.

    Args:
        tokens: The tokens of a line.
        kinds: The quotes to join, by kind; French keeps a space inside its guillemets.
    """
    joined: list[str] = []
    opened = dict.fromkeys(kinds, False)
    waiting = False
    for token in tokens:
        kind = next((kind for kind in kinds if len(token) == 1 and token in kind), None)
        closes = kind is not None and opened[kind]
        if joined and (waiting or closes):
            # The detokenizer joins `,` to its word, but not `,”`.
            while closes and len(joined) > 1 and set(joined[-1]) <= set(_FOLLOWING):
                last = joined.pop()
                joined[-1] += last
            joined[-1] += token
        else:
            joined.append(token)
        waiting = kind is not None and not closes
        if kind is not None:
            opened[kind] = not closes
    return joined
