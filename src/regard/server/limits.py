"""How much of a text a server takes on, and the sentences it becomes."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.spacing import split_at_spaces
from regard.server.config import ServeConfig
from regard.server.refusal import Refusal
from regard.server.splitter import Sentence, split_sentences

__all__ = ["Cut", "check_lines", "check_search", "check_texts", "cut"]


@dataclass(frozen=True)
class Cut:
    """Texts as sentences.

    Attributes:
        texts: The texts.
        sentences: The text that each sentence stands in, and the sentence.
    """

    texts: tuple[str, ...]
    sentences: tuple[tuple[int, Sentence], ...]

    def join(self, translated: Sequence[str]) -> list[str]:
        """Each text's translation: what stands between its sentences stays, a space where nothing does."""
        joined = ["" for _ in self.texts]
        ends = [0 for _ in self.texts]
        for (place, sentence), translation in zip(self.sentences, translated, strict=True):
            gap = self.texts[place][ends[place] : sentence.start]
            joined[place] += (gap or " " if ends[place] else gap) + translation
            ends[place] = sentence.end
        return [text + whole[end:] for text, whole, end in zip(joined, self.texts, ends, strict=True)]


def cut(texts: Sequence[str], split: bool, config: ServeConfig, language: str | None = None) -> Cut:
    """The sentences of texts.

    Args:
        texts: The texts.
        split: Whether to look for sentences; else each line is one.
        config: What is too much.
        language: The language of the texts, where it is known.

    Raises:
        Refusal: if it is too much; says what is, and how much is not.
    """
    check_texts(texts, config)
    sentences = [
        (place, sentence)
        for place, text in enumerate(texts)
        for sentence in split_sentences(text, lines_only=not split, language=language)
    ]
    if len(sentences) > config.sentences:
        raise Refusal(422, f"{len(sentences)} sentences; the most in a request are {config.sentences}")
    for number, (_, sentence) in enumerate(sentences, 1):
        _check_words(sentence.text, f"sentence {number}", config)
    return Cut(tuple(texts), tuple(sentences))


def check_texts(texts: Sequence[str], config: ServeConfig) -> None:
    """Refuse too many characters, and text that is none.

    Raises:
        Refusal: says what is too much, and how much is not.
    """
    total = sum(map(len, texts))
    if total > config.characters:
        raise Refusal(422, f"{total} characters; the most in a request are {config.characters}")
    if any("\ud800" <= one <= "\udfff" for text in texts for one in text):
        raise Refusal(422, "the text holds half a character (a lone surrogate)")


def check_lines(lines: Sequence[str], config: ServeConfig) -> None:
    """Refuse sentences that are too long.

    Raises:
        Refusal: says what is too much, and how much is not.
    """
    check_texts(lines, config)
    for number, line in enumerate(lines, 1):
        _check_words(line, f"line {number}", config)


def _check_words(text: str, name: str, config: ServeConfig) -> None:
    count = len(split_at_spaces(text))
    if count > config.words:
        raise Refusal(422, f"{name} has {count} words; the most are {config.words}")


def check_search(nbest: int, beam: int | None, config: ServeConfig) -> None:
    """Refuse a search that is too wide.

    Raises:
        Refusal: names the setting.
    """
    for name, value in (("nbest", nbest), ("beam", beam or 1)):
        if value > config.beam:
            raise Refusal(422, f"{name} = {value}; the most is {config.beam}")
