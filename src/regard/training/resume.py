"""Consistency checks of a resumed run and of the files of a model directory.

Weights are valid only with the config and the vocabularies that they were trained with. Each weight file
therefore contains the checksums of these files, which are compared whenever the weights are loaded.

The checksum of the config covers the options that `config.toml` states, not the defaults of this version of
regard: a model stays readable when a later version adds an option with a default. For the same reason a
resumed run keeps these statements (`resumed_config`), so that the checksums of weights written before and
after the interruption are equal, whenever the process is killed.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config import read_toml
from regard.errors import CheckpointError, ConfigError, DataError
from regard.text.files import is_partial
from regard.text.reading import checked_directory, checked_file, file_digest
from regard.training.losses.base import resumable_loss_options
from regard.training.serialization import read_metadata, write_tensors
from regard.training.weights import MODEL_FILE
from regard.types import Tensor

__all__ = [
    "CHECKSUMS_KEY",
    "CONFIG_FILE",
    "check_file_checksums",
    "check_model_files",
    "compare_checksums",
    "compare_options",
    "config_differences",
    "file_checksums",
    "fixed_options_checksum",
    "read_stated_config",
    "resumed_config",
    "write_weights",
]

CONFIG_FILE = "config.toml"
CHECKSUMS_KEY = "file_checksums"
"""The key of these checksums in the metadata of a weight file."""
DEPENDENCY_DIRS = ("predictor", "pretrained")
"""Subdirectories of a model directory with files that the weights depend on."""

RESUMABLE_KEYS = (
    "output_dir",
    "plugins",
    "device",
    "num_threads",
    "generation",
    "data.cache_dir",
    "training.max_epochs",
    "training.max_steps",
    "training.max_minutes",
    "training.checkpoint",
    "training.logging",
    "training.validation.early_stopping_patience",
)
"""Options that may change when a run is resumed: limits, logging and paths. Texts are checked by content."""


def _is_resumable(key: str, loss_options: Collection[str]) -> bool:
    """Return whether an option, such as `training.max_epochs`, may change when a run is resumed."""
    # A text may move to another path: its content is part of the fingerprint of the data.
    path = key.startswith("data.") and key.rpartition(".")[2] in ("source", "target", "tsv")
    named = any(key == name or key.startswith((f"{name}.", f"{name}[")) for name in RESUMABLE_KEYS)
    return path or named or key in loss_options


def read_stated_config(folder: Path) -> dict[str, Any]:
    """Return the options that the config of a model directory states, without defaults.

    Raises:
        CheckpointError: if the file is missing or not TOML.
    """
    try:
        return read_toml(checked_file(folder, CONFIG_FILE))
    except (ConfigError, DataError) as error:
        raise CheckpointError(str(error)) from None


def fixed_options_checksum(stated: Mapping[str, Any]) -> str:
    """Return the SHA-256 checksum of the options of a run that must not change when it is resumed.

    Args:
        stated: The options that the config file states.
    """
    loss_options = resumable_loss_options(stated)
    # Sorting makes the checksum independent of the order of the keys in the file.
    decisive = [leaf for leaf in sorted(_leaves(stated, "")) if not _is_resumable(leaf[0], loss_options)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def resumed_config(stated: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to state in the config file of a resumed run.

    Options that may change come from the new config. All others remain exactly as stated, so that their
    checksum is unchanged: an option that a later version added is not stated.

    Args:
        stated: The options that the config file of the run states.
        config: The new config as plain dictionaries, whose other options have the same effective values.
    """
    loss_options = resumable_loss_options(stated) & resumable_loss_options(config)
    return _merge(stated, config, "", loss_options)


def _merge(old: Any, new: Any, path: str, loss_options: Collection[str]) -> Any:
    """Return `old` with the options of `new` that may change; see `resumed_config`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        merged: dict[str, Any] = {}
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else key
            if _is_resumable(inner, loss_options):
                merged |= {key: new[key]} if key in new else {}
            elif key in old:
                merged[key] = _merge(old[key], new.get(key), inner, loss_options)
        return merged
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [_merge(*pair, f"{path}[{number}]", loss_options) for number, pair in enumerate(pairs)]
    return old


def file_checksums(folder: Path, stated: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of the files that the weights of a model directory depend on, by file name.

    Args:
        folder: The model directory. Its `text.json` contains the checksums of the vocabularies.
        stated: The options that its config file states or will state.

    Raises:
        CheckpointError: if a file cannot be read.
    """
    paths = [folder / "text.json"]
    try:
        for name in DEPENDENCY_DIRS:
            for place, inner, files in os.walk(checked_directory(folder, name)):
                # The slice assignment excludes unfinished directories of an interrupted write from `os.walk`.
                inner[:] = [subdirectory for subdirectory in inner if not is_partial(Path(subdirectory))]
                for subdirectory in inner:
                    checked_directory(Path(place), subdirectory)
                paths += [Path(place, file) for file in files]
        names = {path.relative_to(folder).as_posix(): path for path in paths}
        digests = {name: file_digest(checked_file(path.parent, path.name)) for name, path in names.items()}
    except DataError as error:
        raise CheckpointError(str(error)) from None
    return {CONFIG_FILE: fixed_options_checksum(stated), **digests}


def check_model_files(file: Path, directory: Path, ignore_unreadable: bool = False) -> None:
    """Check that a model directory has the config and the vocabularies that its weights were trained with.

    Args:
        file: The weight file.
        directory: The model directory that contains it.
        ignore_unreadable: Whether to ignore a weight file that cannot be read.

    Raises:
        CheckpointError: if a file has changed, is missing or was added; the message names it.
    """
    try:
        check_file_checksums(file, directory, file_checksums(directory, read_stated_config(directory)))
    except _UnreadableWeightsError:
        if not ignore_unreadable:
            raise


class _UnreadableWeightsError(CheckpointError):
    """A weight file that cannot be read."""


def check_file_checksums(file: Path, folder: Path, checksums: Mapping[str, str]) -> None:
    """Check that the checksums in a weight file equal those of the files in a directory.

    Args:
        file: The weight file.
        folder: The directory of the files.
        checksums: The checksums of the files, by file name.

    Raises:
        CheckpointError: if the checksums differ; the message names the first such file.
    """
    try:
        known = read_metadata(file).get(CHECKSUMS_KEY)
    except CheckpointError as error:
        raise _UnreadableWeightsError(str(error)) from None
    compare_checksums(known, file, folder, checksums)


def compare_checksums(recorded: Any, file: Path, folder: Path, checksums: Mapping[str, str]) -> None:
    """Check that recorded checksums equal those of the files in a directory.

    Args:
        recorded: The recorded checksums, by file name.
        file: The file that contains them, for messages.
        folder: The directory of the files.
        checksums: The checksums of the files, by file name.

    Raises:
        CheckpointError: if they differ; the message names the first such file.
    """
    if not isinstance(recorded, Mapping):
        raise CheckpointError(
            f"{file}: the checksums of the config and the vocabularies are missing; train again in another "
            "directory"
        )
    # The union also finds files that were added or removed.
    for name in sorted(recorded.keys() | checksums.keys()):
        if recorded.get(name) != checksums.get(name):
            raise CheckpointError(
                f"{folder / name}: the checksum differs from that of the file that {file} was trained with; "
                "restore the original file, or train again in another directory"
            )


def write_weights(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], metadata: Mapping[str, Any]
) -> None:
    """Write the weights of a model directory that already contains its vocabularies.

    Args:
        folder: The model directory.
        config: The options that its config file states or will state.
        weights: The weights by name.
        metadata: Further metadata of the weights, serializable as JSON.

    Raises:
        CheckpointError: if a file is missing or cannot be written.
    """
    write_tensors(folder / MODEL_FILE, weights, {**metadata, CHECKSUMS_KEY: file_checksums(folder, config)})


def config_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one line for each option that must not differ but does, sorted by the path of the option.

    Args:
        before: The config of the existing run as plain dictionaries.
        now: The new config.
    """
    # An option may change only if the old and the new term at its place in the list permit it.
    loss_options = resumable_loss_options(before) & resumable_loss_options(now)
    return [
        f"{key}: {old} in the existing run, {new} now"
        for key, old, new in sorted(compare_options(before, now))
        if not _is_resumable(key, loss_options)
    ]


def compare_options(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each option that differs, and both values as text, in the order of the options."""
    old, new = dict(_leaves(first, "")), dict(_leaves(second, ""))
    for key in old | new:
        if old.get(key) != new.get(key):
            values = [repr(leaves[key]) if key in leaves else "absent" for leaves in (old, new)]
            yield key, values[0], values[1]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the leaves of nested dictionaries and lists with their paths.

    An empty table or list is a leaf: `[data.fertility]` without keys selects a strategy by its defaults.
    """
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value
