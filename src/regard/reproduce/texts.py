"""The text of an experiment: a folder of parallel text, cut and lowercased as the papers do.

    FOLDER/text.json                       languages, sizes, what was done
    FOLDER/{train,valid,test}.{source,target}

Text that is tokenised already is taken as it is, other text goes through the tokenizer of Moses; everything
is lowercased. Where a corpus has no test set, its validation set is the test set, and the last training
pairs are held out to validate on.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.data.corpus import CorpusConfig, read_lines, read_pairs
from regard.data.files import file_digest, read_bytes, write_atomic
from regard.data.folders import whole_folder
from regard.data.tokenizer import MosesConfig, start_tokenizers
from regard.errors import DataError
from regard.metrics.translation import looks_tokenized

__all__ = ["SPLITS", "ExperimentText", "read_text", "write_text"]

SPLITS = ("train", "valid", "test")
STARTS = {"train": ("train",), "valid": ("val", "dev"), "test": ("test", "tst")}
HELD_OUT = 1000
FILE = "text.json"
LANGUAGE = re.compile("[a-z]{2,3}([-_][A-Za-z]+)?")


@dataclass(frozen=True)
class ExperimentText:
    """Text written by `write_text`.

    Attributes:
        folder: Where it is.
        name: What its folder of origin is called.
        source: The source language, by the ending of its files.
        target: The target language.
        pairs: How many pairs each split has.
        tokenized: Whether it was tokenised already.
        held_out: Whether validation pairs were taken from the training text, for want of a test set.
        digest: A checksum of the files it came from.
    """

    folder: Path
    name: str
    source: str
    target: str
    pairs: dict[str, int]
    tokenized: bool
    held_out: bool
    digest: str

    @property
    def pair(self) -> str:
        """The two languages, as `de-en`."""
        return f"{self.source}-{self.target}"

    def path(self, split: str, side: str) -> Path:
        """The file of a split's `source` or `target`."""
        return self.folder / f"{split}.{side}"

    def lines(self, split: str, side: str) -> list[str]:
        """Its lines."""
        return list(read_lines(self.path(split, side)))


def write_text(data: Path, folder: Path, target: str = "en") -> ExperimentText:
    """Write the text of a folder as experiments read it, unless it is there.

    Args:
        data: Holds `train*`, `val*` or `dev*` and, with luck, `test*`, a file for each of two languages, told
            by the ending of the name (`train.de`, `train.en.gz`).
        folder: Where it goes.
        target: The language to translate into.

    Raises:
        DataError: if files are missing or more than one would do, or cannot be read; names them.
    """
    found, source = _find(data, target)
    digest = hashlib.sha256("".join(file_digest(path) for path in found.values()).encode()).hexdigest()
    if (folder / FILE).exists():
        known = read_text(folder)
        if known.digest == digest:
            return known
    pairs = {
        split: list(
            read_pairs(CorpusConfig(source=str(found[split, source]), target=str(found[split, target])))
        )
        for split in SPLITS
        if (split, source) in found
    }
    tokenized = looks_tokenized([line for _, line in pairs["train"]])
    held_out = "test" not in pairs
    if held_out:
        pairs = {
            "train": pairs["train"][:-HELD_OUT],
            "valid": pairs["train"][-HELD_OUT:],
            "test": pairs["valid"],
        }
    with whole_folder(folder) as into:
        written = {
            split: _write(into, split, own, None if tokenized else (source, target))
            for split, own in pairs.items()
        }
        text = ExperimentText(
            folder, data.resolve().name, source, target, written, tokenized, held_out, digest
        )
        about = {key: value for key, value in asdict(text).items() if key != "folder"}
        write_atomic(into / FILE, (json.dumps(about, indent=2) + "\n").encode())
    return text


def read_text(folder: Path) -> ExperimentText:
    """The text that `write_text` wrote.

    Raises:
        DataError: if it is not there.
    """
    return ExperimentText(folder, **json.loads(read_bytes(folder / FILE)))


def _find(data: Path, target: str) -> tuple[dict[tuple[str, str], Path], str]:
    """The files of each split and language, and which the source language is."""
    if not data.is_dir():
        raise DataError(f"{data}: no such folder of parallel text")
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(data.iterdir()):
        stem, _, language = path.name.removesuffix(".gz").rpartition(".")
        for split, starts in STARTS.items():
            if stem.startswith(starts) and LANGUAGE.fullmatch(language) and path.is_file():
                found.setdefault((split, language), []).append(path)
    languages = {language for split, language in found if split == "train"}
    sources = sorted(languages - {target})
    if len(sources) != 1 or target not in languages:
        shown = ", ".join(sorted(languages)) or "none"
        raise DataError(
            f"{data}: expected train files of two languages, one of them .{target}; found: {shown}"
        )
    wanted = [(split, language) for split in SPLITS for language in (sources[0], target)]
    for split, language in wanted:
        files = found.get((split, language), [])
        if len(files) > 1 or (not files and split != "test"):
            names = ", ".join(path.name for path in files) or "none"
            raise DataError(
                f"{data}: expected one file {' or '.join(STARTS[split])}*.{language}; found: {names}"
            )
    chosen = {key: found[key][0] for key in wanted if key in found}
    return chosen, sources[0]


def _write(
    folder: Path, split: str, pairs: Sequence[tuple[str, str]], languages: tuple[str, str] | None
) -> int:
    """Write a split, training pairs with an empty side left out; returns how many were written."""
    sides: list[Iterable[str]] = [[pair[side] for pair in pairs] for side in (0, 1)]
    if languages is not None:
        configs = [MosesConfig(language=language) for language in languages]
        tokenizers = start_tokenizers(configs[0], configs[1], ([], []))
        sides = [
            [" ".join(tokenizer.pretokenize(line)) for line in lines]
            for tokenizer, lines in zip(tokenizers, sides, strict=True)
        ]
    cut = [tuple(" ".join(line.split()).lower() for line in pair) for pair in zip(*sides, strict=True)]
    if split == "train":
        cut = [pair for pair in cut if all(pair)]
    for side, name in enumerate(("source", "target")):
        text = "".join(f"{pair[side]}\n" for pair in cut)
        write_atomic(folder / f"{split}.{name}", text.encode())
    return len(cut)
