"""Check the limits of a request, and split its texts into sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.whitespace import split_whitespace
from regard.server.config import ServeConfig
from regard.server.errors import RequestError
from regard.server.sentence_splitter import SentenceSpan, split_sentences

__all__ = ["SplitTexts", "check_lines", "check_request_texts", "check_search", "split_texts"]


@dataclass(frozen=True)
class SplitTexts:
    """Texts that are split into sentences.

    Attributes:
        texts: The texts.
        sentences: Pairs of the index of a text and a sentence of the text, in order.
    """

    texts: tuple[str, ...]
    sentences: tuple[tuple[int, SentenceSpan], ...]

    def join(self, translated: Sequence[str]) -> list[str]:
        """Return the translation of each text: translated sentences, separated as in the source text.

        Sentences without any character between them are separated by a space.

        Args:
            translated: Translations of all sentences.
        """
        joined = ["" for _ in self.texts]
        ends = [0 for _ in self.texts]
        for (place, sentence), translation in zip(self.sentences, translated, strict=True):
            gap = self.texts[place][ends[place] : sentence.start]
            joined[place] += (gap or " " if ends[place] else gap) + translation
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
        RequestError: if a limit is exceeded.
    """
    check_request_texts(texts, config)
    sentences = [
        (place, sentence)
        for place, text in enumerate(texts)
        for sentence in split_sentences(text, lines_only=not split, language=language)
    ]
    if len(sentences) > config.max_sentences:
        raise RequestError(
            422, f"{len(sentences)} sentences: a request may have at most {config.max_sentences}"
        )
    for number, (_, sentence) in enumerate(sentences, 1):
        _check_words(sentence.text, f"sentence {number}", config)
    return SplitTexts(tuple(texts), tuple(sentences))


def check_request_texts(texts: Sequence[str], config: ServeConfig) -> None:
    """Check the number of characters, and that the texts are valid Unicode.

    Raises:
        RequestError: if there are too many characters, or a lone surrogate.
    """
    total = sum(map(len, texts))
    if total > config.max_characters:
        raise RequestError(422, f"{total} characters: a request may have at most {config.max_characters}")
    if any("\ud800" <= one <= "\udfff" for text in texts for one in text):
        raise RequestError(422, "the text contains half of a character (a lone surrogate)")


def check_lines(lines: Sequence[str], config: ServeConfig) -> None:
    """Check the number of characters of all lines and the number of words of each line.

    Raises:
        RequestError: if a limit is exceeded.
    """
    check_request_texts(lines, config)
    for number, line in enumerate(lines, 1):
        _check_words(line, f"line {number}", config)


def _check_words(text: str, name: str, config: ServeConfig) -> None:
    count = len(split_whitespace(text))
    if count > config.max_words:
        raise RequestError(422, f"{name} has {count} words: a sentence may have at most {config.max_words}")


def check_search(num_return: int, beam_size: int | None, config: ServeConfig) -> None:
    """Check the number of translations and the beam size.

    Raises:
        RequestError: if one of them exceeds the limit.
    """
    for name, value in (("num_return", num_return), ("beam_size", beam_size or 1)):
        if value > config.max_beam_size:
            raise RequestError(422, f"{name} = {value}: expected at most {config.max_beam_size}")
