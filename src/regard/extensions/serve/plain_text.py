"""Text for readers of the served page: detokenized translations, and example sentences of a model."""

from pathlib import Path

from regard.data.text import TextProcessor
from regard.data.training_text import read_training_text, select_examples
from regard.text.text_format import TextFormat
from regard.text.tokenizers import moses
from regard.text.whitespace import split_whitespace

__all__ = ["example_sentences", "to_plain_text"]


def to_plain_text(line: str, text_format: TextFormat) -> str:
    """Return a line of tokenized text as plain text, with the rules of Moses (Koehn et al., 2007).

    Args:
        line: The line.
        text_format: The format of the training text. If it is not tokenized, the line is returned unchanged.
    """
    if not text_format.tokenized:
        return line
    # Moses marks hyphens within words, if the option `-a` is set.
    words = split_whitespace(line.replace(" @-@ ", "-"))
    return moses.detokenize(words, text_format.language or "en", unescape=text_format.escaped)


def example_sentences(text: TextProcessor, directory: Path | None) -> list[str]:
    """Return source sentences that a model can translate, empty if none are known.

    They are sentences of the validation text that the model directory contains. A sentence with an unknown
    token is left out.

    Args:
        text: Text processing of the model.
        directory: The model directory. None if the model was not loaded from one.

    Raises:
        DataError: if the description of the training text in the directory is damaged.
    """
    stored = None if directory is None else read_training_text(directory)
    known = select_examples(text, () if stored is None else stored.examples)
    return [to_plain_text(line, text.source.text_format) for line in known]
