"""Text for readers of the served page: detokenized translations, and example sentences of a model."""

from pathlib import Path

from regard.data.text import TextProcessor
from regard.data.training_text import read_training_text, select_examples
from regard.text.text_format import TextFormat
from regard.text.tokenizers import moses
from regard.text.whitespace import split_whitespace

__all__ = ["example_sentences", "to_plain_text"]

_PHRASEBOOK_LINES = 30  # lines of the built-in corpus from which the examples are chosen


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

    They are sentences of the validation text that the model directory contains, or else of the built-in
    corpus if its words are those of the model. A sentence with an unknown token is left out.

    Args:
        text: Text processing of the model.
        directory: The model directory. None if the model was not loaded from one.

    Raises:
        DataError: if the description of the training text in the directory is damaged.
    """
    stored = None if directory is None else read_training_text(directory)
    known = select_examples(text, () if stored is None else stored.examples)
    if not known and not text.source.tokenizer.subword:
        known = select_examples(text, _phrasebook_lines())
    return [to_plain_text(line, text.source.text_format) for line in known]


def _phrasebook_lines() -> list[str]:
    from regard.extensions.phrasebook.corpus import generate_split

    return [" ".join(pair.source) for pair in generate_split("test", _PHRASEBOOK_LINES, seed=1)]
