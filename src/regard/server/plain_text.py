"""Text for readers of the served page: detokenized translations, and example sentences of a model."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from regard.data.corpus import read_pairs
from regard.data.hf import is_hf_directory
from regard.data.text import TextProcessor
from regard.data.text_format import TextFormat
from regard.data.tokenizers import moses
from regard.data.whitespace import split_whitespace
from regard.errors import RegardError
from regard.run_config import load_config

__all__ = ["detokenize", "example_sentences"]

_EXAMPLES = 4
_READ = 300  # lines of the validation text from which the examples are chosen
_LENGTHS = range(4, 15)  # words of an example: attention of longer sentences does not fit a phone


def detokenize(line: str, text_format: TextFormat) -> str:
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

    They come from the validation text that the configuration of the model names, or else from the built-in
    corpus if its words are those of the model. A sentence with an unknown token is left out.

    Args:
        text: Text processing of the model.
        directory: The model directory. None to read no file that its configuration names.
    """
    known = _select(text, [] if directory is None else _validation_lines(directory))
    if not known and not text.source.tokenizer.subword:
        known = _select(text, _phrasebook_lines())
    return [detokenize(line, text.source.text_format) for line in known]


def _validation_lines(directory: Path) -> list[str]:
    """Return the first source lines of the validation text; empty if it cannot be read."""
    if not directory.is_dir() or is_hf_directory(directory):
        return []
    try:
        return [source for source, _ in islice(read_pairs(load_config(directory).data.valid), _READ)]
    except RegardError:
        return []  # the files have been moved, or belong to another machine


def _phrasebook_lines() -> list[str]:
    from regard.phrasebook import generate_split

    return [" ".join(pair.source) for pair in generate_split("test", _READ // 10, seed=1)]


def _select(text: TextProcessor, lines: Iterable[str]) -> Sequence[str]:
    """Return sentences of known words, evenly distributed over the text."""
    usable = [
        line
        for line in lines
        if len(split_whitespace(line)) in _LENGTHS
        and all(token in text.source.vocabulary for token in text.source.tokenizer.encode(line))
    ]
    return usable[:: max(1, len(usable) // _EXAMPLES)][:_EXAMPLES]
