"""Split texts into sentences, and check the limits of a request.

Sentences are split with sentencex, the sentence splitter of the Wikimedia Foundation. It has rules and
abbreviations for many languages, so that `Prof. Weber` is not split. For other languages it uses the rules of
a related language or of English. A line break always ends a sentence.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException
from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.schemas import SentencePair, SplitSentence
from regard.text.words import normalize_whitespace, split_whitespace

_log = logging.getLogger(__name__)
_SPACE = re.compile(r"\s")
_TRIMMED = re.compile(r"[^\s\x00-\x1f\x7f-\x9f](?:.*[^\s\x00-\x1f\x7f-\x9f])?", re.DOTALL)
"""A text without white space and control characters at its ends."""
_WIDE_MARKS = "\u3000-\u303f\uff00-\uffef"
_IDEOGRAPHS = (
    "\u2e80-\u2fff\u3040-\u312f\u31a0-\u31ff\u3400-\u9fff\ua000-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Han, Kana, Bopomofo and Yi, which have no space between sentences; Thai, for example, has one."""
# Tokenized text, which has a space before a mark, keeps its spaces.
_UNSPACED_MARK = re.compile(rf"(?<! )[{_WIDE_MARKS}]$")
_UNSPACED_END = re.compile(rf"(?<! )[{_IDEOGRAPHS}{_WIDE_MARKS}][^\w\s]*$")
_UNSPACED_START = re.compile(rf"[^\w\s]*[{_IDEOGRAPHS}{_WIDE_MARKS}]")
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""The text of a line, or line breaks."""


def split_sentences(text: str, lines_only: bool = False, language: str | None = None) -> list[SplitSentence]:
    """Return the sentences of a text, in order; lines of white space are skipped.

    Args:
        text: The text.
        lines_only: Whether each line is one sentence, without further splitting.
        language: Language code of ISO 639. Default: English.
    """
    spans: list[SplitSentence] = []
    end = 0
    for line in _LINE.findall(text):
        for sentence in [line] if lines_only or line.isspace() else _segment(line, language or "en"):
            start, end = end, end + len(sentence)
            if trimmed := _TRIMMED.search(text, start, end):
                first, last = trimmed.span()
                spans.append(SplitSentence(text=normalize_whitespace(trimmed[0]), start=first, end=last))
    return spans


def _segment(line: str, language: str) -> list[str]:
    """Return the sentences of a line including white space; the whole line if sentencex fails."""
    # sentencex 1.0.32 splits within the bytes of U+3000 after an initial. Each white space character is
    # therefore replaced by one space, which keeps all indices.
    plain = _SPACE.sub(" ", line)
    try:
        sentences = segment(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of its Rust code, not a subclass of Exception
            raise
        _log.warning("a line of %d characters is not split: sentencex: %s", len(line), error)
        return [line]
    # Without this check, a character that sentencex drops would shift the positions of all later sentences.
    return sentences if "".join(sentences) == plain else [line]


def separator(gap: str, before: str, after: str) -> str:
    """Return the separator of two translated sentences: that of the source, if their script allows it.

    Line breaks and tabs remain. Otherwise, Chinese and Japanese have no space, or an ideographic space if the
    source has one, and other scripts have a space.

    Args:
        gap: The white space between the source sentences.
        before: The first translated sentence, or the text up to its end.
        after: The second translated sentence.
    """
    if gap.strip(" \u00a0\u3000"):
        return gap
    if _UNSPACED_MARK.search(before) or (_UNSPACED_END.search(before) and _UNSPACED_START.match(after)):
        return gap.strip(" \u00a0")
    return gap.replace("\u3000", " ") or " "


@dataclass(frozen=True)
class SplitTexts:
    """Texts that are split into sentences.

    Attributes:
        sentences: Pairs of the index of a text and a sentence of the text, in order.
    """

    texts: tuple[str, ...]
    sentences: tuple[tuple[int, SplitSentence], ...]

    def join(self, translated: Sequence[str]) -> list[str]:
        """Return the translation of each text: translated sentences, separated by `separator`.

        Args:
            translated: Translations of all sentences.
        """
        joined = ["" for _ in self.texts]
        ends = [0 for _ in self.texts]
        for (place, sentence), translation in zip(self.sentences, translated, strict=True):
            gap = self.texts[place][ends[place] : sentence.start]
            joined[place] += separator(gap, joined[place], translation) if ends[place] else gap
            joined[place] += translation
            ends[place] = sentence.end
        return [text + whole[end:] for text, whole, end in zip(joined, self.texts, ends, strict=True)]


def split_texts(
    texts: Sequence[str], split: bool, config: ServeConfig, language: str | None = None
) -> SplitTexts:
    """Split texts into sentences.

    Args:
        texts: The texts.
        split: Whether to split lines into sentences; otherwise each line is a sentence.
        config: The limits.
        language: Language code of the texts. None if unknown.

    Raises:
        HTTPException: if a limit is exceeded.
    """
    check_request_texts(texts, config)
    sentences = [
        (place, sentence)
        for place, text in enumerate(texts)
        for sentence in split_sentences(text, lines_only=not split, language=language)
    ]
    if len(sentences) > config.max_sentences:
        raise HTTPException(
            422, f"{len(sentences)} sentences: a request may have at most {config.max_sentences}"
        )
    _check_words([sentence.text for _, sentence in sentences], "sentence", config)
    return SplitTexts(tuple(texts), tuple(sentences))


def check_request_texts(texts: Sequence[str], config: ServeConfig) -> None:
    """Check the number of characters, and that the texts are valid Unicode.

    Raises:
        HTTPException: if there are too many characters, or a lone surrogate.
    """
    total = sum(map(len, texts))
    if total > config.max_characters:
        raise HTTPException(422, f"{total} characters: a request may have at most {config.max_characters}")
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise HTTPException(422, "the text contains half of a character (a lone surrogate)")


def pair_jobs(pairs: Sequence[SentencePair], config: ServeConfig) -> list[SentencePair]:
    """Return sentences and their translations, with single spaces between words.

    Raises:
        HTTPException: if a limit is exceeded.
    """
    if len(pairs) > config.max_sentences:
        raise HTTPException(422, f"{len(pairs)} pairs: a request may have at most {config.max_sentences}")
    lines = [line for pair in pairs for line in (pair.source, pair.target)]
    check_request_texts(lines, config)
    _check_words(lines, "line", config)
    return [
        SentencePair(source=normalize_whitespace(pair.source), target=normalize_whitespace(pair.target))
        for pair in pairs
    ]


def _check_words(lines: Sequence[str], name: str, config: ServeConfig) -> None:
    for number, line in enumerate(lines, 1):
        count = len(split_whitespace(line))
        if count > config.max_words:
            raise HTTPException(
                422, f"{name} {number} has {count} words: a sentence may have at most {config.max_words}"
            )
