"""The manifest of preprocessed data: its inputs, settings and files.

`manifest.json` is written last, so that a directory with a manifest is complete. The data is preprocessed
again if the entry `wanted` (settings and versions of the tokenizer libraries) or the entry `inputs` (size and
checksum of each input file) has changed.
"""

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from regard.config import to_dict
from regard.data.config import DataConfig
from regard.errors import DataError
from regard.text.corpus import CorpusConfig
from regard.text.paths import readable
from regard.text.reading import InvalidJsonError, checked_file, file_digest, parse_json, read_json
from regard.text.tokenizers.base import TOKENIZERS

__all__ = [
    "MANIFEST",
    "describe_inputs",
    "describe_settings",
    "input_files",
    "is_up_to_date",
    "read_manifest",
]

MANIFEST = "manifest.json"
MANIFEST_VERSION = 2


def describe_settings(config: DataConfig) -> dict[str, Any]:
    """Return the settings and library versions that determine the preprocessed arrays.

    The output directory, the paths, the sampling weights and the fertility settings are left out, since they
    do not change the arrays.
    """
    settings = to_dict(config)
    # Remove everything that does not change the arrays, so that changing it does not cause preprocessing.
    settings.pop("cache_dir", None)
    settings.pop("fertility", None)
    for side in ("source_tokenizer", "target_tokenizer"):
        if settings[side]["kind"] == "pretrained":
            settings[side].pop("path")  # its files are inputs
    for corpus in [*settings["train"], settings["valid"], settings.get("test", {})]:
        for name in ("source", "target", "tsv", "sampling_weight"):
            corpus.pop(name, None)
    libraries = {
        name
        for side in (config.source_tokenizer, config.target_tokenizer)
        for name in TOKENIZERS.part_of(side).libraries
    }
    return {
        "format": MANIFEST_VERSION,
        "settings": settings,
        "libraries": {name: _version(name) for name in sorted(libraries)},
    }


def _version(library: str) -> str:
    """Return the installed version of a library, or `absent`."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"  # the tokenizer raises a helpful error when it needs the library


def describe_inputs(config: DataConfig) -> dict[str, dict[str, Any]]:
    """Return path, size and checksum of each input file by its role (`train.0.source`).

    Raises:
        DataError: if a file is missing or not a regular file.
    """
    return {
        role: {
            # Absolute, so that messages name the same file in another working directory.
            "path": readable(os.path.abspath(path)),
            "sha256": file_digest(Path(path)),
            "size": os.stat(path).st_size,
        }
        for role, path in input_files(config)
    }


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest of a directory and check that each file exists and has the right size.

    Raises:
        DataError: if the directory does not contain preprocessed data, or a file is missing or truncated. The
            message names the file.
    """
    path = directory / MANIFEST
    try:
        manifest = read_json(checked_file(directory, MANIFEST), dict[str, Any])
        # Validated, but returned as it is: other entries are for people and for later versions.
        known = parse_json(json.dumps(manifest), _Manifest)
    except InvalidJsonError as error:
        raise DataError(
            f"{path}: not the manifest of preprocessed data ({error}); prepare again into another directory"
        ) from None
    if known.wanted.get("format") != MANIFEST_VERSION:
        raise DataError(f"{directory}: preprocessed by another version of regard; prepare again")
    for name, about in known.files.items():
        file = checked_file(directory, name, path)
        try:
            size = file.stat().st_size
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}; prepare again") from None
        if size != about.size:
            raise DataError(f"{file}: {size} bytes, expected {about.size}; prepare again")
    return manifest


class _File(BaseModel):
    """The entry of an output or input file."""

    size: int = Field(ge=0)
    sha256: str


class _Manifest(BaseModel):
    """The validated part of `manifest.json`."""

    files: dict[str, _File]
    wanted: dict[str, Any]
    inputs: dict[str, _File]
    splits: dict[str, "_Split"]


class _Split(BaseModel):
    """The entry of a split."""

    corpora: list["_Corpus"]


class _Corpus(BaseModel):
    """The entry of a corpus."""

    name: str
    pairs: int = Field(ge=0)
    kept: int = Field(ge=0)
    weight: float = Field(gt=0, le=1e4)


def is_up_to_date(
    manifest: dict[str, Any], wanted: dict[str, Any], inputs: dict[str, dict[str, Any]]
) -> bool:
    """Return whether existing data agrees with the current settings and the content of the inputs."""
    old, new = (
        {role: (about["size"], about["sha256"]) for role, about in described.items()}
        for described in (manifest["inputs"], inputs)
    )
    return manifest["wanted"] == wanted and old == new


def input_files(config: DataConfig) -> list[tuple[str, str]]:
    """Return the role (such as `train.0.source`) and the path of each input file."""
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
        for path in TOKENIZERS.part_of(tokenizer).input_files(tokenizer)
    ]
