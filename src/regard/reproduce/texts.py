"""The text of an experiment: a folder of parallel text as the papers cut it, or tables of inflected forms.

    FOLDER/text.json                                  where it comes from, sizes, what was done
    FOLDER/{train,valid,test,gold}.{source,target}    parallel text; `gold` has word links by hand
    FOLDER/aligner/, FOLDER/actions/                  made of it when they are asked for

Parallel text that is tokenised already is taken as it is, other text goes through the tokenizer of Moses;
everything is lowercased; raw text stays as it is. Where a corpus has no test set, its validation set is the
test set, and the last training pairs are held out to validate on. Tables are read where they are, but for
those that are held out. When the files of origin have changed the folder is made anew.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.config import from_dict
from regard.data.corpus import CorpusConfig, read_lines, read_pairs
from regard.data.files import file_digest, write_atomic
from regard.data.folders import whole_folder
from regard.data.reading import read_json
from regard.data.spacing import join_spaces
from regard.data.tokenizer import MosesConfig, start_tokenizers
from regard.errors import DataError
from regard.metrics.translation import looks_tokenized

__all__ = ["SPLITS", "TABLE", "ExperimentText", "find_tables", "read_text", "write_text"]

SPLITS = ("train", "valid", "test", "gold")
STARTS = {"train": ("train",), "valid": ("val", "dev"), "test": ("test", "tst"), "gold": ("gold-test",)}
GOLD_LINKS = "gold-test.talp"
HELD_OUT = 1000
TABLE = (1, 2, 3)
"""Lemma, features, form, as in Durrett & DeNero (2013)."""
TABLES = {"train": ("train", "train-high"), "valid": ("dev",), "test": ("test",)}
FEATURES = re.compile("[;=]")
FILE = "text.json"
PATHS = ("source", "target", "tsv")
LANGUAGE = re.compile("[a-z]{2,3}([-_][A-Za-z]+)?")


@dataclass(frozen=True)
class ExperimentText:
    """The text of an experiment.

    Attributes:
        folder: Where `text.json` is.
        name: What its folder of origin, or its tables, are called.
        pair: The two languages, as `de-en`; of tables their name.
        target: The language of the target.
        pairs: How many pairs each split has.
        corpora: Each split as a `CorpusConfig` takes it.
        cut: What was done to it, in words.
        digest: A checksum of what models are made of: the files of the training and validation text.
        tests: The same of each split that is tested on.
        gold: The file of the word links of the split `gold`, where there is one.
    """

    folder: Path
    name: str
    pair: str
    target: str
    pairs: dict[str, int]
    corpora: dict[str, dict[str, Any]]
    cut: str
    digest: str
    tests: dict[str, str]
    gold: str | None = None

    @property
    def aligner(self) -> Path:
        """Where the aligner is that was trained on the training text."""
        return self.folder / "aligner"

    def actions(self, split: str) -> dict[str, Any]:
        """A table of forms as the actions of a pointer, as a `CorpusConfig` takes it."""
        return {"tsv": str(self.folder / "actions" / f"{split}.tsv"), "columns": list(TABLE)}

    def lines(self, split: str, side: Literal["source", "target"]) -> list[str]:
        """The lines of one side of a split."""
        place = ("source", "target").index(side)
        return [pair[place] for pair in read_pairs(from_dict(CorpusConfig, self.corpora[split]))]


def write_text(
    data: Path, folder: Path, target: str = "en", limit: int = 0, raw: bool = False
) -> ExperimentText:
    """Write parallel text as experiments read it, unless it is there.

    Args:
        data: Holds `train*`, `val*` or `dev*` and, with luck, `test*`, a file for each of two languages, told
            by the ending of the name (`train.de`, `train.en.gz`); perhaps also `gold-test*`, whose word
            links are in `gold-test.talp`.
        folder: Where it goes.
        target: The language to translate into.
        limit: Take so many of the first training pairs; 0: all.
        raw: Neither cut into words nor lowercased.

    Raises:
        DataError: if files are missing or more than one would do, or cannot be read; names them.
    """
    found, source = _find(data, target)
    talp = data / GOLD_LINKS
    if not talp.is_file():
        found = {key: path for key, path in found.items() if key[0] != "gold"}
    sums = {split: _digest(path for (own, _), path in found.items() if own == split) for split in SPLITS}
    origin = f"{sums['train']} {sums['valid']} {limit}{' raw' if raw else ''}"
    digest = hashlib.sha256(origin.encode()).hexdigest()
    tests = {"test": sums["test"] if ("test", source) in found else sums["valid"]}
    if ("gold", source) in found:
        tests["gold"] = hashlib.sha256(f"{sums['gold']} {file_digest(talp)}".encode()).hexdigest()
    if (known := _known(folder, digest, tests)) is not None:
        return known
    pairs = {
        split: list(
            read_pairs(CorpusConfig(source=str(found[split, source]), target=str(found[split, target])))
        )
        for split in SPLITS
        if (split, source) in found
    }
    tokenized = looks_tokenized([line for _, line in pairs["train"]])
    cut = f"words {'as the text has them' if tokenized else 'of Moses'}, lowercased"
    if raw:
        cut = "as it is"
    if "test" not in pairs:
        held_out = {"train": pairs["train"][:-HELD_OUT], "valid": pairs["train"][-HELD_OUT:]}
        pairs |= {**held_out, "test": pairs["valid"]}
        cut += "; no test set: the validation set is the test set, and training text validates"
    if limit and limit < len(pairs["train"]):
        cut += f"; the first {limit:,} of {len(pairs['train']):,} training pairs"
        pairs["train"] = pairs["train"][:limit]
    with whole_folder(folder) as into:
        written = {
            split: _write(into, split, own, None if tokenized or raw else (source, target), not raw)
            for split, own in pairs.items()
        }
        corpora = {
            split: {side: str(folder / f"{split}.{side}") for side in ("source", "target")} for split in pairs
        }
        text = ExperimentText(
            folder,
            data.resolve().name,
            f"{source}-{target}",
            target,
            written,
            corpora,
            cut,
            digest,
            tests,
            str(talp.resolve()) if "gold" in pairs else None,
        )
        _describe(text, into)
    return text


def find_tables(data: Path, folder: Path, columns: Sequence[int] = TABLE) -> ExperimentText:
    """Tables of inflection.

    Args:
        data: What their names begin with: `DIR/de_noun` for `DIR/de_noun.train.tsv.gz`, `.dev` and `.test`;
            `.tsv` and `.gz` may be absent, and `train-high` is a name of the training table (SIGMORPHON).
            Without `.test` the last training forms validate, and `.dev` is tested on.
        folder: Where `text.json` goes.
        columns: Where lemma, features (any number of columns) and form stand, from 1.

    Raises:
        DataError: if one is missing or cannot be read, or has its features where forms should be; names it.
    """
    found = {split: _find_table(data, kinds) for split, kinds in TABLES.items()}
    for split in ("train", "valid"):
        if found[split] is None:
            kind = TABLES[split][0]
            raise DataError(f"{data.parent}: expected {data.name}.{kind}.tsv or {data.name}.{kind}.tsv.gz")
    paths = {split: path for split, path in found.items() if path is not None}
    _check_columns(paths["train"], columns)
    digest = _digest([paths["train"], paths["valid"]])
    if tuple(columns) != TABLE:
        digest = hashlib.sha256(f"{digest} {list(columns)}".encode()).hexdigest()
    cut, held = "characters", {}
    if "test" not in paths:
        cut += "; no test table: dev is the test table, and training forms validate"
        lines = list(read_lines(paths["train"]))
        held = {"train": lines[:-HELD_OUT], "valid": lines[-HELD_OUT:]}
        paths = {split: folder / f"{split}.tsv" for split in held} | {"test": paths["valid"]}
    tests = {"test": file_digest(paths["test"])}
    if (known := _known(folder, digest, tests)) is not None:
        return known
    corpora = {split: {"tsv": str(paths[split].resolve()), "columns": list(columns)} for split in SPLITS[:3]}
    name, pairs = data.name, {split: len(lines) for split, lines in held.items()}
    for split in corpora.keys() - held.keys():
        pairs[split] = sum(1 for _ in read_pairs(from_dict(CorpusConfig, corpora[split])))
    pairs = {split: pairs[split] for split in corpora}
    text = ExperimentText(folder, name, name, name, pairs, corpora, cut, digest, tests)
    with whole_folder(folder) as into:
        for split, lines in held.items():
            write_atomic(into / f"{split}.tsv", "".join(f"{line}\n" for line in lines).encode())
        _describe(text, into)
    return text


def _find_table(data: Path, kinds: Sequence[str]) -> Path | None:
    ends = ((kind, tsv, gz) for kind in kinds for tsv in (".tsv", "") for gz in ("", ".gz"))
    files = (data.parent / f"{data.name}.{kind}{tsv}{gz}" for kind, tsv, gz in ends)
    return next(filter(Path.is_file, files), None)


def _check_columns(path: Path, columns: Sequence[int]) -> None:
    """See that features are not taken for forms: SIGMORPHON has its columns in another order.

    Raises:
        DataError: if most of the first forms look like features, and what are called features do not.
    """
    lines = islice(read_lines(path), 100)
    rows = [fields for fields in (line.split("\t") for line in lines) if len(fields) >= max(columns)]
    forms = [row[columns[-1] - 1] for row in rows if FEATURES.search(row[columns[-1] - 1])]
    described = [row for row in rows if any(FEATURES.search(row[place - 1]) for place in columns[1:-1])]
    if len(forms) > len(rows) / 2 > len(described):
        raise DataError(
            f"{path}: column {columns[-1]}, {forms[0]!r}, looks like features and not like a form; "
            "tables of lemma, form and features want --columns 1,3,2"
        )


def read_text(folder: Path) -> ExperimentText:
    """The text that `write_text` or `find_tables` described.

    Raises:
        DataError: if it is not there, or does not say what it should.
    """
    try:
        about = read_json(folder / FILE, dict[str, Any])
        for corpus in about["corpora"].values():
            corpus.update({key: str(folder / corpus[key]) for key in PATHS if key in corpus})
        return ExperimentText(folder, **about)
    except (AttributeError, KeyError, TypeError, ValueError):  # NotJson is one of these
        raise DataError(f"{folder / FILE}: not the description of an experiment's text") from None


def _known(folder: Path, digest: str, tests: Mapping[str, str]) -> ExperimentText | None:
    """The text that is there, if it comes from the same files."""
    try:
        found = read_text(folder)
    except DataError:
        return None
    return found if (found.digest, found.tests) == (digest, tests) else None


def _describe(text: ExperimentText, folder: Path) -> None:
    about = {key: value for key, value in asdict(text).items() if key != "folder"}
    for corpus in about["corpora"].values():  # what stands beside it moves with it
        own = {key: Path(corpus[key]) for key in PATHS if key in corpus}
        corpus.update({key: path.name for key, path in own.items() if path.parent == text.folder})
    write_atomic(folder / FILE, (json.dumps(about, indent=2) + "\n").encode())


def _digest(paths: Iterable[Path]) -> str:
    """A checksum of files in their order."""
    return hashlib.sha256("".join(file_digest(path) for path in paths).encode()).hexdigest()


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
        needed = split in ("train", "valid") or any((split, other) in found for other in languages)
        if len(files) > 1 or (not files and needed):
            names = ", ".join(path.name for path in files) or "none"
            raise DataError(
                f"{data}: expected one file {' or '.join(STARTS[split])}*.{language}; found: {names}"
            )
    return {key: found[key][0] for key in wanted if key in found}, sources[0]


def _write(
    folder: Path,
    split: str,
    pairs: Sequence[tuple[str, str]],
    languages: tuple[str, str] | None,
    lowercase: bool,
) -> int:
    """Write a split, training pairs with an empty side left out; returns how many were written."""
    sides: list[Iterable[str]] = [[pair[side] for pair in pairs] for side in (0, 1)]
    if languages is not None:
        try:
            configs = [MosesConfig(language=language) for language in languages]
        except ValueError:
            raise DataError(
                f"{' or '.join(languages)}: the text is not tokenised, and Moses cannot cut it: no space "
                "separates its words; give text whose words are separated"
            ) from None
        tokenizers = start_tokenizers(configs[0], configs[1], ([], []))
        sides = [
            [" ".join(tokenizer.pretokenize(line)) for line in lines]
            for tokenizer, lines in zip(tokenizers, sides, strict=True)
        ]
    cut = [tuple(map(join_spaces, pair)) for pair in zip(*sides, strict=True)]
    if lowercase:
        cut = [tuple(line.lower() for line in pair) for pair in cut]
    if split == "train":
        cut = [pair for pair in cut if all(pair)]
    for side, name in enumerate(("source", "target")):
        text = "".join(f"{pair[side]}\n" for pair in cut)
        write_atomic(folder / f"{split}.{name}", text.encode())
    return len(cut)
