"""The manifest of a folder of prepared data: what it was made from and what it holds.

`manifest.json` is written last, so that a folder with a manifest is whole. What decides whether the data
must be prepared again is its `wanted` part: settings, versions of the tokenizers' libraries, and for each
input file its size and checksum.
"""

import json
import os
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from regard.config import to_dict
from regard.data.corpus import CorpusConfig, DataConfig
from regard.data.files import file_digest
from regard.data.hf import text_files
from regard.data.reading import NotJson, parse_json, read_json
from regard.data.sealed import own_file
from regard.data.tokenizer import (
    BytePairConfig,
    MosesConfig,
    PretrainedTokenizerConfig,
    SentencePieceConfig,
    TokenizerConfig,
)
from regard.errors import DataError

__all__ = ["MANIFEST", "describe_inputs", "describe_settings", "is_current", "read_manifest"]

MANIFEST = "manifest.json"
FORMAT = 2
RACY = 2_000_000_000
"""Nanoseconds after a change in which a file may change again without a new time stamp."""


def describe_settings(config: DataConfig) -> dict[str, Any]:
    """Everything but the inputs' content that decides what the prepared arrays are.

    Folder, paths, weights and fertility are left out: data that moved, is to be seen more often or attended
    otherwise, stays as it is.
    """
    settings = to_dict(config)
    settings.pop("folder", None)
    settings.pop("fertility", None)
    for side in ("source_tokenizer", "target_tokenizer"):
        if settings[side]["kind"] == "pretrained":
            settings[side].pop("folder")  # its files are inputs
    for corpus in _plain_corpora(settings):
        for name in ("source", "target", "tsv", "weight"):
            corpus.pop(name, None)
    libraries = {
        name for side in (config.source_tokenizer, config.target_tokenizer) for name in _libraries(side)
    }
    return {
        "format": FORMAT,
        "settings": settings,
        "libraries": {name: _version(name) for name in sorted(libraries)},
    }


def _version(library: str) -> str:
    """Its version; who needs one that is absent says so better."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def describe_inputs(config: DataConfig, known: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Path, size, time of change and checksum of every input file, by its role (`train.0.source`).

    Args:
        config: The corpora.
        known: Descriptions from an earlier manifest; where path, size and time agree its checksum is taken.

    Raises:
        DataError: if a file is missing or not a file.
    """
    inputs = {}
    for role, path in _roles(config):
        try:
            state = os.stat(path)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None
        if not Path(path).is_file():
            raise DataError(
                f"{path}: {'a folder' if Path(path).is_dir() else 'not a file'}, expected a text file"
            )
        # A file changed just now may change again within the same time stamp: its time vouches for nothing.
        settled = time.time_ns() - state.st_mtime_ns > RACY
        found = {
            "path": os.path.abspath(path),
            "size": state.st_size,
            "mtime_ns": state.st_mtime_ns if settled else None,
        }
        old = (known or {}).get(role, {})
        same = settled and all(old.get(key) == value for key, value in found.items())
        inputs[role] = {**found, "sha256": old["sha256"] if same else file_digest(Path(path))}
    return inputs


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a prepared folder, once every file it names is found to have its size.

    Raises:
        DataError: if the folder is not one, or a file in it is missing or truncated; names the file.
    """
    path = folder / MANIFEST
    try:
        manifest = read_json(path, dict[str, Any])
        known = parse_json(json.dumps(manifest), _Manifest)
    except NotJson as error:
        raise DataError(
            f"{path}: not the manifest of prepared data ({error}); prepare again into another folder"
        ) from None
    if known.wanted.get("format") != FORMAT:
        raise DataError(f"{folder}: prepared by another version of regard; prepare again")
    for name, about in known.files.items():
        file = own_file(folder, name, path)
        try:
            size = file.stat().st_size
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}; prepare again") from None
        if size != about.size:
            raise DataError(f"{file}: {size} bytes, expected {about.size}; prepare again")
    return manifest


class _File(BaseModel):
    """What the manifest says of a file: of the folder, or of an input."""

    size: int = Field(ge=0)
    sha256: str


class _Manifest(BaseModel):
    """What is read of `manifest.json`."""

    files: dict[str, _File]
    wanted: dict[str, Any]
    inputs: dict[str, _File]
    splits: dict[str, "_Split"]


class _Split(BaseModel):
    """What the manifest says of a split."""

    corpora: list["_Corpus"]


class _Corpus(BaseModel):
    """What the manifest says of a corpus."""

    name: str
    pairs: int = Field(ge=0)
    kept: int = Field(ge=0)
    weight: float = Field(gt=0, le=1e4)


def verify(folder: Path, manifest: dict[str, Any]) -> None:
    """Compare every file's content with its checksum.

    Raises:
        DataError: if a file was altered; names it.
    """
    for name, about in manifest["files"].items():
        if file_digest(folder / name) != about["sha256"]:
            raise DataError(
                f"{folder / name}: altered: its checksum is not the one in {MANIFEST}; "
                f"remove {folder} and prepare again"
            )


def is_current(manifest: dict[str, Any], wanted: dict[str, Any], inputs: dict[str, dict[str, Any]]) -> bool:
    """Whether prepared data is what would be prepared now."""
    return manifest["wanted"] == wanted and _content(manifest["inputs"]) == _content(inputs)


def _content(inputs: dict[str, dict[str, Any]]) -> dict[str, tuple[int, str]]:
    return {role: (about["size"], about["sha256"]) for role, about in inputs.items()}


def _roles(config: DataConfig) -> list[tuple[str, str]]:
    named: list[tuple[str, CorpusConfig]] = [(f"train.{i}", corpus) for i, corpus in enumerate(config.train)]
    named.append(("valid", config.valid))
    if config.test is not None:
        named.append(("test", config.test))
    texts = [
        (f"{name}.{part}", path)
        for name, corpus in named
        for part in ("source", "target", "tsv")
        if (path := getattr(corpus, part)) is not None
    ]
    tokenizers = (("source", config.source_tokenizer), ("target", config.target_tokenizer))
    return texts + [
        (f"{side}.{path.name}", str(path))
        for side, tokenizer in tokenizers
        if isinstance(tokenizer, PretrainedTokenizerConfig)
        for path in text_files(Path(tokenizer.folder))
    ]


def _plain_corpora(settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [*settings["train"], settings["valid"], *([settings["test"]] if "test" in settings else [])]


def _libraries(tokenizer: TokenizerConfig) -> tuple[str, ...]:
    match tokenizer:
        case MosesConfig():
            return ("sacremoses",)
        case BytePairConfig():
            return ("sacremoses", "subword-nmt")
        case SentencePieceConfig():
            return ("sentencepiece",)
        case PretrainedTokenizerConfig():
            return ("tokenizers", "transformers")
        case _:
            return ()
