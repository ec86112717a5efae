"""The text of an experiment: parallel text, preprocessed as in the papers, or tables of inflected forms.

    DIR/text.json                                  origin, sizes and preprocessing
    DIR/{train,valid,test,gold}.{source,target}    parallel text; `gold` has gold word links
    DIR/aligner/, DIR/actions/                     created from the text when they are needed

Parallel text is lowercased and, unless it is already tokenized, tokenized with the Moses tokenizer; raw text
is not changed. If a corpus has no test set, its validation set is used as the test set, and the last training
pairs are used for validation. Tables are not copied, except for held-out parts. If the original files have
changed, the directory is created again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any, Literal

from regard.config import from_dict
from regard.errors import DataError
from regard.metrics.translation import looks_tokenized
from regard.text.compression import SUFFIXES, remove_suffix
from regard.text.corpus import CorpusConfig, read_lines, read_pairs
from regard.text.files import atomic_directory, write_atomic
from regard.text.reading import file_digest, read_json
from regard.text.tokenizers.base import create_tokenizers
from regard.text.tokenizers.moses import MosesConfig
from regard.text.words import normalize_whitespace

TEXT_SPLITS = ("train", "valid", "test", "gold")
_SIDES = ("source", "target")
FILE_PREFIXES = {
    "train": ("train",),
    "valid": ("val", "dev"),
    "test": ("test", "tst"),
    "gold": ("gold-test",),
}
GOLD_LINKS = "gold-test.talp"
NUM_HELD_OUT = 1000
DEFAULT_COLUMNS = (1, 2, 3)
"""The columns of lemma, features and form, from 1, as in Durrett & DeNero (2013)."""
TABLE_SUFFIXES = {"train": ("train", "train-high"), "valid": ("dev",), "test": ("test",)}
FEATURE_PATTERN = re.compile("[;=]")
EXPERIMENT_TEXT_FILE = "text.json"
PATH_KEYS = ("source", "target", "file")
LANGUAGE_PATTERN = re.compile("[a-z]{2,3}([-_][A-Za-z]+)?")


@dataclass(frozen=True)
class ExperimentText:
    """The text of an experiment.

    Attributes:
        directory: The directory of `text.json`.
        name: The name of the original directory or of the tables.
        pair: The two languages, as `de-en`; for tables their name.
        target: The target language.
        num_pairs: The number of sentence pairs of each split.
        corpora: The options of `CorpusConfig` of each split.
        preprocessing: A description of the preprocessing.
        checksum: The checksum of the files of the training and validation text.
        test_checksums: The checksum of each test split.
        gold_path: The file of the word links of the split `gold`, if any.
    """

    directory: Path
    name: str
    pair: str
    target: str
    num_pairs: dict[str, int]
    corpora: dict[str, dict[str, Any]]
    preprocessing: str
    checksum: str
    test_checksums: dict[str, str]
    gold_path: str | None = None

    @property
    def aligner(self) -> Path:
        """The directory of the aligner that is trained on the training text."""
        return self.directory / "aligner"

    def actions(self, split: str) -> dict[str, Any]:
        """Return the options of `CorpusConfig` for a table of forms as edit actions."""
        return {"file": str(self.directory / "actions" / f"{split}.tsv"), "columns": list(DEFAULT_COLUMNS)}

    def lines(self, split: str, side: Literal["source", "target"]) -> list[str]:
        """Return the lines of one side of a split."""
        return [pair[_SIDES.index(side)] for pair in read_pairs(from_dict(CorpusConfig, self.corpora[split]))]


def write_text(
    data: Path, output_dir: Path, target: str = "en", max_pairs: int = 0, raw: bool = False
) -> ExperimentText:
    """Preprocess parallel text and write it to a directory, unless the directory is up to date.

    Args:
        data: A directory with the files `train*`, `val*` or `dev*` and optionally `test*` in two languages,
            which are the suffixes of the names (`train.de`, `train.en.gz`). It may also contain `gold-test*`
            with word links in `gold-test.talp`.
        output_dir: The output directory.
        target: The target language.
        max_pairs: The number of first training pairs to use. 0 uses all.
        raw: Whether to skip tokenization and lowercasing.

    Raises:
        DataError: if a file is missing, ambiguous or not readable; the message names it.
    """
    files, source = _find_files(data, target)
    gold_links = data / GOLD_LINKS
    if not gold_links.is_file():
        files.pop("gold", None)
    sums = {split: _checksum("".join(map(file_digest, paths))) for split, paths in files.items()}
    checksum = _checksum(f"{sums['train']} {sums['valid']} {max_pairs}{' raw' if raw else ''}")
    # The test set has a checksum of its own: other test text changes the scores, but not the weights.
    tests = {"test": sums.get("test", sums["valid"])}
    if "gold" in files:
        tests["gold"] = _checksum(f"{sums['gold']} {file_digest(gold_links)}")
    # The directory is up to date if the same files and options have the same checksums.
    if (known := _existing_text(output_dir, checksum, tests)) is not None:
        return known
    pairs = {
        split: list(read_pairs(CorpusConfig(source=str(sides[0]), target=str(sides[1]))))
        for split, sides in files.items()
    }
    tokenized = looks_tokenized([line for _, line in pairs["train"]])
    pairs, notes = _select_pairs(pairs, max_pairs)
    kind = f"{'already tokenized' if tokenized else 'tokenized with Moses'}, lowercased"
    languages = None if tokenized or raw else (source, target)
    with atomic_directory(output_dir) as directory:
        text = ExperimentText(
            output_dir,
            data.resolve().name,
            f"{source}-{target}",
            target,
            {split: _write(directory, split, bitext, languages, not raw) for split, bitext in pairs.items()},
            {split: {side: str(output_dir / f"{split}.{side}") for side in _SIDES} for split in pairs},
            "; ".join(["not preprocessed" if raw else kind, *notes]),
            checksum,
            tests,
            str(gold_links.resolve()) if "gold" in pairs else None,
        )
        _describe(text, directory)
    return text


def _select_pairs(
    pairs: dict[str, list[tuple[str, str]]], max_pairs: int
) -> tuple[dict[str, list[tuple[str, str]]], list[str]]:
    """Return the pairs of every split to use, and notes on training pairs that are not used for training."""
    notes = []
    if "test" not in pairs:
        train = pairs["train"]
        pairs = pairs | {
            "train": train[:-NUM_HELD_OUT],
            "valid": train[-NUM_HELD_OUT:],
            "test": pairs["valid"],
        }
        notes.append("no test set: the validation set is the test set, and training pairs are held out")
    if 0 < max_pairs < len(pairs["train"]):
        notes.append(f"the first {max_pairs:,} of {len(pairs['train']):,} training pairs")
        pairs = pairs | {"train": pairs["train"][:max_pairs]}
    return pairs, notes


def find_tables(prefix: Path, output_dir: Path, columns: Sequence[int] = DEFAULT_COLUMNS) -> ExperimentText:
    """Find tables of inflected forms and describe them in `text.json`.

    Args:
        prefix: The prefix of the file names: `DIR/de_noun` for `DIR/de_noun.train.tsv.gz`, `.dev` and
            `.test`. `.tsv` and the suffix of a compression are optional, and the training table may be named
            `train-high` (SIGMORPHON). Without a `.test` table, `.dev` is the test set and the last training
            forms are the validation set.
        output_dir: The directory of `text.json`.
        columns: The columns of the lemma, the features (any number of columns) and the form, from 1.

    Raises:
        DataError: if a table is missing or not readable, or its form column contains features; the message
            names it.
    """
    tables: dict[str, Path | None] = {}
    for split, kinds in TABLE_SUFFIXES.items():
        ends = product(kinds, (".tsv", ""), ("", *SUFFIXES))
        candidates = (prefix.parent / f"{prefix.name}.{''.join(parts)}" for parts in ends)
        tables[split] = next(filter(Path.is_file, candidates), None)
    for split in ("train", "valid"):
        if tables[split] is None:
            kind = TABLE_SUFFIXES[split][0]
            raise DataError(
                f"{prefix.parent}: expected {prefix.name}.{kind}.tsv or {prefix.name}.{kind}.tsv.gz"
            )
    paths = {split: path for split, path in tables.items() if path is not None}
    _check_columns(paths["train"], columns)
    checksum = _checksum(file_digest(paths["train"]) + file_digest(paths["valid"]))
    if tuple(columns) != DEFAULT_COLUMNS:
        checksum = _checksum(f"{checksum} {list(columns)}")
    preprocessing, held_out = "characters", {}
    if "test" not in paths:
        preprocessing += "; no test table: dev is the test table, and training forms are held out"
        lines = list(read_lines(paths["train"]))
        held_out = {"train": lines[:-NUM_HELD_OUT], "valid": lines[-NUM_HELD_OUT:]}
        paths = {split: output_dir / f"{split}.tsv" for split in held_out} | {"test": paths["valid"]}
    tests = {"test": file_digest(paths["test"])}
    if (known := _existing_text(output_dir, checksum, tests)) is not None:
        return known
    corpora = {
        split: {"file": str(paths[split].resolve()), "format": "tsv", "columns": list(columns)}
        for split in TEXT_SPLITS[:3]
    }
    name, pairs = prefix.name, {split: len(lines) for split, lines in held_out.items()}
    for split in corpora.keys() - held_out.keys():
        pairs[split] = sum(1 for _ in read_pairs(from_dict(CorpusConfig, corpora[split])))
    pairs = {split: pairs[split] for split in corpora}
    text = ExperimentText(output_dir, name, name, name, pairs, corpora, preprocessing, checksum, tests)
    with atomic_directory(output_dir) as directory:
        for split, lines in held_out.items():
            write_atomic(directory / f"{split}.tsv", "".join(f"{line}\n" for line in lines).encode())
        _describe(text, directory)
    return text


def _check_columns(path: Path, columns: Sequence[int]) -> None:
    """Check that the form column does not contain features, as SIGMORPHON has another order of columns.

    Raises:
        DataError: if most of the first forms look like features, and most of the features do not.
    """
    lines = islice(read_lines(path), 100)
    rows = [fields for fields in (line.split("\t") for line in lines) if len(fields) >= max(columns)]
    forms = [row[columns[-1] - 1] for row in rows if FEATURE_PATTERN.search(row[columns[-1] - 1])]
    with_features = [
        row for row in rows if any(FEATURE_PATTERN.search(row[column - 1]) for column in columns[1:-1])
    ]
    if len(forms) > len(rows) / 2 > len(with_features):
        raise DataError(
            f"{path}: column {columns[-1]} should contain forms, but {forms[0]!r} looks like features; "
            "use --columns 1,3,2 for tables of lemma, form and features"
        )


def _existing_text(
    directory: Path, checksum: str, test_checksums: Mapping[str, str]
) -> ExperimentText | None:
    """Return the text of an existing directory, if it was created from the same files, else None."""
    try:
        about = read_json(directory / EXPERIMENT_TEXT_FILE, dict[str, Any])
        for corpus in about["corpora"].values():
            corpus.update({key: str(directory / corpus[key]) for key in PATH_KEYS if key in corpus})
        text = ExperimentText(directory, **about)
    except (DataError, AttributeError, KeyError, TypeError, ValueError):
        return None  # there is none, or its description is damaged
    return text if (text.checksum, text.test_checksums) == (checksum, test_checksums) else None


def _describe(text: ExperimentText, directory: Path) -> None:
    about = {key: value for key, value in asdict(text).items() if key != "directory"}
    # Files in the same directory are stored by name, so that the directory can be moved.
    for corpus in about["corpora"].values():
        paths = {key: Path(corpus[key]) for key in PATH_KEYS if key in corpus}
        corpus.update({key: path.name for key, path in paths.items() if path.parent == text.directory})
    write_atomic(directory / EXPERIMENT_TEXT_FILE, (json.dumps(about, indent=2) + "\n").encode())


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _find_files(data: Path, target: str) -> tuple[dict[str, tuple[Path, Path]], str]:
    """Return the source and the target file of each split, and the source language."""
    if not data.is_dir():
        raise DataError(f"{data}: no such directory of parallel text")
    matches: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(data.iterdir()):
        stem, _, language = remove_suffix(path.name).rpartition(".")
        for split, starts in FILE_PREFIXES.items():
            if stem.startswith(starts) and LANGUAGE_PATTERN.fullmatch(language) and path.is_file():
                matches.setdefault((split, language), []).append(path)
    languages = {language for split, language in matches if split == "train"}
    sources = sorted(languages - {target})
    if len(sources) != 1 or target not in languages:
        language_list = ", ".join(sorted(languages)) or "none"
        raise DataError(
            f"{data}: expected training files of two languages, one of them .{target}; found: {language_list}"
        )
    files: dict[str, tuple[Path, Path]] = {}
    for split in TEXT_SPLITS:
        sides = [matches.get((split, language), []) for language in (sources[0], target)]
        needed = split in ("train", "valid") or any((split, other) in matches for other in languages)
        for language, paths in zip((sources[0], target), sides, strict=True):
            if len(paths) > 1 or (not paths and needed):
                names = ", ".join(path.name for path in paths) or "none"
                raise DataError(
                    f"{data}: expected one file {' or '.join(FILE_PREFIXES[split])}*.{language}; "
                    f"found: {names}"
                )
        if needed:
            files[split] = sides[0][0], sides[1][0]
    return files, sources[0]


def _write(
    directory: Path,
    split: str,
    pairs: Sequence[tuple[str, str]],
    languages: tuple[str, str] | None,
    lowercase: bool,
) -> int:
    """Write a split without training pairs that have an empty side; return the number of pairs."""
    sides: list[Iterable[str]] = [[pair[side] for pair in pairs] for side in (0, 1)]
    if languages is not None:
        try:
            configs = [MosesConfig(language=language) for language in languages]
        except ValueError:
            raise DataError(
                f"{' or '.join(languages)}: the text is not tokenized, and the Moses tokenizer does not "
                "support languages without spaces between words; use tokenized text"
            ) from None
        tokenizers = create_tokenizers(configs[0], configs[1], ([], []))
        sides = [
            [" ".join(tokenizer.pretokenize(line)) for line in lines]
            for tokenizer, lines in zip(tokenizers, sides, strict=True)
        ]
    cleaned = [tuple(map(normalize_whitespace, pair)) for pair in zip(*sides, strict=True)]
    if lowercase:
        cleaned = [tuple(line.lower() for line in pair) for pair in cleaned]
    # Test sets keep pairs with an empty side, because their sentences must stay in line with gold links.
    if split == "train":
        cleaned = [pair for pair in cleaned if all(pair)]
    for side, name in enumerate(_SIDES):
        text = "".join(f"{pair[side]}\n" for pair in cleaned)
        write_atomic(directory / f"{split}.{name}", text.encode())
    return len(cleaned)
