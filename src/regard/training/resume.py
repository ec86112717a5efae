"""Whether a run that goes on is the run that was begun, and whether a model folder's files belong together.

Weights are numbers that mean something beside one config and one vocabulary alone. With each file of weights
stand the checksums of what it was trained beside, and who reads it compares.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files import file_digest
from regard.data.partial import is_partial
from regard.data.sealed import own_file
from regard.errors import CheckpointError, DataError
from regard.training.store import read_about, write_tensors
from regard.training.weights import MODEL_FILE
from regard.types import Tensor

__all__ = [
    "BESIDE",
    "check_beside",
    "check_weights",
    "compare_beside",
    "decisive_digest",
    "differences",
    "files_beside",
    "is_harmless",
    "write_weights",
]

BESIDE = "beside"
"""The key of a file of weights under which these checksums stand."""
FOLDERS = ("predictor", "pretrained")
"""Folders of a model folder whose files decide what its weights do."""

HARMLESS = (
    "folder",
    "device",
    "threads",
    "search",
    "data.folder",
    "guided.links",
    "training.stop",
    "training.checkpoint",
    "training.record",
    "training.validation.patience",
)
"""What may differ when a run goes on: limits, logging, places. Texts may move: their content is checked."""


def is_harmless(key: str) -> bool:
    """Whether a setting of a run's config may be another one when the run goes on."""
    path = key.startswith("data.") and key.rpartition(".")[2] in ("source", "target", "tsv")
    return path or any(key == name or key.startswith(f"{name}.") for name in HARMLESS)


def decisive_digest(config: Mapping[str, Any]) -> str:
    """The SHA-256 of the settings of a run's config that are not harmless."""
    decisive = [leaf for leaf in sorted(_leaves(config, "")) if not is_harmless(leaf[0])]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def files_beside(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """The checksums of what the weights of a model folder mean something beside.

    Args:
        folder: The model folder. `text.json` has the checksums of the vocabularies.
        config: Its config as plain dictionaries.

    Raises:
        CheckpointError: if a file cannot be read.
    """
    paths = [folder / "text.json"]
    for name in FOLDERS:
        for place, inner, files in os.walk(folder / name):
            inner[:] = [one for one in inner if not is_partial(Path(one))]
            paths += [Path(place, file) for file in files]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    try:
        digests = {name: file_digest(own_file(path.parent, path.name)) for name, path in names.items()}
    except DataError as error:
        raise CheckpointError(str(error)) from None
    return {"config.toml": decisive_digest(config), **digests}


def check_weights(file: Path, folder: Path, config: Mapping[str, Any], lost: bool = False) -> None:
    """See that weights stand beside the config and the vocabularies that they were trained with.

    Args:
        file: The file of weights.
        folder: The model folder it lies in.
        config: The folder's config as plain dictionaries.
        lost: Whether a file that cannot be read is passed over.

    Raises:
        CheckpointError: if a file is another one, is missing or was not there; names it.
    """
    try:
        check_beside(file, folder, files_beside(folder, config))
    except _Unreadable:
        if not lost:
            raise


class _Unreadable(CheckpointError):
    """A file of weights cannot be read."""


def check_beside(file: Path, folder: Path, found: Mapping[str, str]) -> None:
    """See that weights stand beside files of certain checksums.

    Args:
        file: The file of weights.
        folder: The folder of the files.
        found: The checksums of what is there, by the files' names.

    Raises:
        CheckpointError: if it was trained beside others; names the first.
    """
    try:
        known = read_about(file).get(BESIDE)
    except CheckpointError as error:
        raise _Unreadable(str(error)) from None
    compare_beside(known, file, folder, found)


def compare_beside(known: Any, file: Path, folder: Path, found: Mapping[str, str]) -> None:
    """See that recorded checksums are those of what is there.

    Args:
        known: What was recorded.
        file: Where; for messages.
        folder: The folder of the files.
        found: The checksums of what is there, by the files' names.

    Raises:
        CheckpointError: if they differ; names the first file.
    """
    if not isinstance(known, Mapping):
        raise CheckpointError(f"{file}: does not tell which config and vocabularies it was trained with")
    for name in sorted(known.keys() | found.keys()):
        if known.get(name) != found.get(name):
            raise CheckpointError(
                f"{folder / name}: is not what {file} was trained with: its checksum is another; put the "
                "right file back, or train again in another folder"
            )


def write_weights(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], about: Mapping[str, Any]
) -> None:
    """Write the weights of a model folder whose config and text are there.

    Args:
        folder: The model folder.
        config: Its config as plain dictionaries.
        weights: By name.
        about: What else is to be known of them; anything JSON can hold.

    Raises:
        CheckpointError: if a file is missing or cannot be written.
    """
    write_tensors(folder / MODEL_FILE, weights, {**about, BESIDE: files_beside(folder, config)})


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], harmless: Callable[[str], bool]
) -> list[str]:
    """The settings in which two configs differ, one line each, by the path of their keys.

    Args:
        before: A config as plain dictionaries.
        now: Another.
        harmless: Whether a key, such as `training.batch.size` or `data.train[0].weight`, may differ.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(now, ""))
    return [
        f"{key}: {_shown(old, key)} there, {_shown(new, key)} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not harmless(key)
    ]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dictionaries and lists with their paths."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    return repr(leaves[key]) if key in leaves else "absent"
