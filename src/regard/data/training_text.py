"""The part of the training text that is stored in a model directory, so that no other file is read.

A report trains a word aligner and a detector on the text of a model, and the page of a server shows example
sentences. A configuration may name any file of the machine, so both use only these files of the directory:

    training_text.json            size of the training text, example sentences, checksums of the pairs
    training_pairs.source.gz      the first sentence pairs, one line per sentence
    training_pairs.target.gz
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from regard.config import configclass, option, to_dict
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData
from regard.data.text import TextProcessor
from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import write_atomic
from regard.text.reading import (
    Checksums,
    checked_file,
    compute_checksums,
    read_expected_json,
    verify_checksums,
)
from regard.text.words import split_whitespace

MAX_STORED_PAIRS = 50_000
"""Maximum number of sentence pairs: a few megabytes, and enough for the aligner and the detector."""
_MAX_WORDS = 200  # a longer line costs the aligner time and teaches it nothing
_TEXT_FILE = "training_text.json"
_PAIR_FILES = ("training_pairs.source.gz", "training_pairs.target.gz")
_NUM_EXAMPLES = 4
_EXAMPLE_CANDIDATES = 300  # lines of the validation text from which the examples are chosen
_EXAMPLE_LENGTHS = range(4, 15)  # words of an example: attention of longer sentences does not fit a phone


_Count = Annotated[int, Field(ge=0, le=2**32)]


@configclass
class TrainingText:
    """The content of `training_text.json`."""

    num_pairs: int = option(help="Number of sentence pairs of the whole training text.", ge=0, le=2**32)
    num_tokens: tuple[_Count, _Count] = option(help="Number of its source and target tokens.")
    examples: tuple[str, ...] = option(help="Source sentences of the validation text.")
    sha256: Checksums = option(help="Checksums of the files of the stored pairs.")


def save_training_text(data: DataConfig, prepared: PreparedData, directory: Path) -> None:
    """Store the size, the first pairs and example sentences of the text of a run in its model directory.

    Raises:
        DataError: if a corpus cannot be read, or a file cannot be written.
    """
    pairs = [
        pair
        for pair in islice(chain.from_iterable(map(read_pairs, data.train)), MAX_STORED_PAIRS)
        if max(line.count(" ") for line in pair) < _MAX_WORDS
    ]
    for side, name in enumerate(_PAIR_FILES):
        write_atomic(directory / name, "".join(f"{pair[side]}\n" for pair in pairs).encode())
    candidates = (source for source, _ in islice(read_pairs(data.valid), _EXAMPLE_CANDIDATES))
    train = prepared.manifest["splits"]["train"]
    text = TrainingText(
        num_pairs=sum(corpus["kept"] for corpus in train["corpora"]),
        num_tokens=(train["unknown"]["source"]["tokens"], train["unknown"]["target"]["tokens"]),
        examples=tuple(select_examples(prepared.text, candidates)),
        sha256=compute_checksums(directory, _PAIR_FILES),
    )
    write_atomic(directory / _TEXT_FILE, (json.dumps(to_dict(text), indent=2) + "\n").encode())


def read_training_text(directory: Path) -> TrainingText | None:
    """Return the description of the training text of a model directory; None if it has none.

    Raises:
        DataError: if the file is damaged or not a regular file of the directory.
    """
    path = checked_file(directory, _TEXT_FILE)
    return (
        read_expected_json(path, TrainingText, "the description of a training text")
        if path.exists()
        else None
    )


def read_training_pairs(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs that a model directory contains.

    Raises:
        DataError: if a file is missing, damaged or not a regular file of the directory.
    """
    text = read_training_text(directory)
    if text is None:
        raise DataError(f"{directory}: contains no training text ({_TEXT_FILE})")
    verify_checksums(directory, text.sha256, _PAIR_FILES, _TEXT_FILE)
    source, target = (str(directory / name) for name in _PAIR_FILES)
    return read_pairs(CorpusConfig(source=source, target=target))


def copy_training_text(directory: Path, target: Path) -> None:
    """Copy the stored training text of a model directory, if it has one, to a model made from it.

    Raises:
        DataError: if a file is not a regular file of the directory.
        OSError: if a file cannot be read or written.
    """
    for name in (*_PAIR_FILES, _TEXT_FILE):
        if (path := checked_file(directory, name)).exists():
            shutil.copyfile(path, target / name)


def select_examples(text: TextProcessor, lines: Iterable[str]) -> list[str]:
    """Return up to four short source sentences without unknown tokens, evenly distributed over the lines."""
    usable = [
        line
        for line in lines
        if len(split_whitespace(line)) in _EXAMPLE_LENGTHS
        and all(token in text.source.vocabulary for token in text.source.tokenizer.encode(line))
    ]
    return usable[:: max(1, len(usable) // _NUM_EXAMPLES)][:_NUM_EXAMPLES]
