"""The Moses tokenizer (Koehn et al., 2007), implemented with the package sacremoses.

Special characters are not escaped: `'` is not replaced by `&apos;`, since the escapes are only needed for the
phrase tables of Moses and would enter the vocabulary. Decoding therefore does not unescape `&apos;` either.
For text that already contains the escapes, as some published corpora do, use the tokenizer `words`.

The detokenizer of sacremoses supports European punctuation and straight quotes. This module adds the full
stops and commas of other scripts (in `है ।`, the danda follows its word without a space) and joins
typographic quotes to their words. Languages without spaces between words (Japanese, Chinese, Thai) are
rejected: Moses splits text at spaces, so that a whole clause would become one token.
"""

import re
from collections.abc import Sequence
from typing import Literal

from regard.config import configclass, option
from regard.data.text_format import TextFormat, TextFormatDetector
from regard.data.tokenizers.base import Tokenizer, register_tokenizer

__all__ = ["MosesConfig", "MosesTokenizer", "check_language"]

_FOLLOWING = ",.?!:;\\%}])" + "।॥۔؟،؛՞՝։።፣፤፥፦፧"
"""Punctuation marks that follow a word without a space: those of Moses, then those of other scripts."""
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
"""Languages without spaces between words."""


def check_language(language: str) -> None:
    """Check that Moses supports a language.

    Raises:
        ValueError: if the language has no spaces between words.
    """
    if language in _UNSPACED:
        raise ValueError(
            f"language = {language!r}: Moses splits text at spaces, but {_UNSPACED[language]} has no spaces "
            "between words: use kind 'sentencepiece', or separate the words with another tool and use kind "
            "'words' (or 'bpe' with tokenized = true)"
        )


@configclass
class MosesConfig:
    """The Moses tokenizer, which separates punctuation with rules for each language."""

    kind: Literal["moses"] = option(default="moses", help="The Moses tokenizer.")
    language: str = option(
        default="en",
        help="Two-letter code of the language, which must have spaces between words.",
        pattern="^[a-z]{2,3}$",
    )

    def __post_init__(self) -> None:
        """Check that the language has spaces between words."""
        check_language(self.language)


@register_tokenizer("moses", MosesConfig)
class MosesTokenizer(Tokenizer):
    """The Moses tokenizer and detokenizer; detokenization does not always restore the original text."""

    libraries = ("sacremoses",)

    def __init__(self, config: MosesConfig) -> None:
        """Create the tokenizer and the detokenizer of the library."""
        # Imported here, because the library compiles hundreds of patterns on import.
        from sacremoses import MosesDetokenizer
        from sacremoses import MosesTokenizer as Rules

        self.config = config
        self._tokenizer = Rules(lang=config.language)
        self._detokenizer = MosesDetokenizer(lang=config.language)
        # Override the pattern of punctuation marks that are attached to the preceding word.
        self._detokenizer.IS_PUNCT = re.compile(f"^[{re.escape(_FOLLOWING)}]+$")

    def __reduce__(self) -> tuple[type["MosesTokenizer"], tuple[MosesConfig]]:
        """Pickle the configuration only, since the compiled patterns are slow to pickle."""
        return MosesTokenizer, (self.config,)

    @classmethod
    def detect_format(
        cls, config: MosesConfig, detector: TextFormatDetector, language: str | None
    ) -> TextFormat:
        """Return the format; the tokenizer separates punctuation itself."""
        return TextFormat(language=config.language)

    def pretokenize(self, line: str) -> list[str]:
        """Return the Moses tokens of a line."""
        tokens = self._tokenizer.tokenize(line, escape=False)
        return tokens if isinstance(tokens, list) else tokens.split()

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the detokenized text."""
        kinds = (_QUOTES,) if self.config.language == "fr" else (_QUOTES, _GUILLEMETS)
        return self._detokenizer.detokenize(_attach(tokens, kinds), unescape=False)


def _attach(tokens: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Attach typographic quotes to adjacent words.

    Opening and closing quotes of a type alternate, regardless of the character: `„x“`, `“x”`, `”x”`, `»x«`.

    Args:
        tokens: The tokens of a line.
        kinds: The quote characters of each type. French has a space inside guillemets, which stay separate.
    """
    joined: list[str] = []
    opened = dict.fromkeys(kinds, False)
    waiting = False
    for token in tokens:
        kind = next((kind for kind in kinds if len(token) == 1 and token in kind), None)
        closes = kind is not None and opened[kind]
        if joined and (waiting or closes):
            # The detokenizer attaches `,` to the preceding word, but not `,”`.
            while closes and len(joined) > 1 and set(joined[-1]) <= set(_FOLLOWING):
                last = joined.pop()
                joined[-1] += last
            joined[-1] += token
        else:
            joined.append(token)
        # An opening quote waits for the word after it.
        waiting = kind is not None and not closes
        if kind is not None:
            opened[kind] = not closes
    return joined
