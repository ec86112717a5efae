"""Checksums of the files of a model directory that its weights depend on.

Weights are valid only with the options and the vocabularies that they were trained with. Each weight file
therefore contains the checksums of these files, which are compared whenever the weights are loaded.

The checksum of the config covers the tables `data` and `model` as `config.toml` states them, not the defaults
of this version of regard: a model stays readable when a later version adds an option with a default. The
options of a resumed run are compared apart (`regard.training.run_config`).
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, DataError
from regard.runs.description import CONFIG_FILE, read_stated_config
from regard.runs.serialization import read_metadata, write_tensors
from regard.runs.weights import MODEL_FILE
from regard.text.files import is_partial
from regard.text.paths import check_link
from regard.text.reading import checked_file, file_digest
from regard.types import Tensor

CHECKSUMS_KEY = "file_checksums"
"""The key of these checksums in the metadata of a weight file."""
DEPENDENCY_DIRS = ("predictor", "pretrained")
"""Subdirectories of a model directory with files that the weights depend on."""


def is_path_option(key: str) -> bool:
    """Return whether an option is the path of a text or of prepared data; their content is checked."""
    text = key.startswith("data.") and key.rpartition(".")[2] in ("source", "target", "file")
    return text or key == "data.cache_dir"


def options_checksum(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 checksum of options by their dotted keys, in any order."""
    return hashlib.sha256(json.dumps(sorted(options.items())).encode()).hexdigest()


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
            for place, inner, files in os.walk(check_link(folder / name, folder)):
                # The slice assignment excludes unfinished directories of an interrupted write from `os.walk`.
                inner[:] = [subdirectory for subdirectory in inner if not is_partial(Path(subdirectory))]
                for subdirectory in inner:
                    check_link(Path(place, subdirectory), Path(place))
                paths += [Path(place, file) for file in files]
        names = {path.relative_to(folder).as_posix(): path for path in paths}
        digests = {name: file_digest(checked_file(path.parent, path.name)) for name, path in names.items()}
    except DataError as error:
        raise CheckpointError(str(error)) from None
    described = {name: stated.get(name) for name in ("data", "model")}
    options = {key: value for key, value in option_values(described).items() if not is_path_option(key)}
    return {CONFIG_FILE: options_checksum(options), **digests}


def check_model_files(file: Path, directory: Path) -> None:
    """Check that a model directory has the config and the vocabularies that its weights were trained with.

    Args:
        file: The weight file.
        directory: The model directory that contains it.

    Raises:
        CheckpointError: if a file has changed, is missing or was added; the message names it.
    """
    recorded = read_metadata(file).get(CHECKSUMS_KEY)
    compare_checksums(recorded, file, directory, file_checksums(directory, read_stated_config(directory)))


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


def compare_options(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each option that differs, and both values as text, in the order of the options."""
    old, new = option_values(first), option_values(second)
    for key in old | new:
        if old.get(key) != new.get(key):
            values = [repr(leaves[key]) if key in leaves else "absent" for leaves in (old, new)]
            yield key, values[0], values[1]


def option_values(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested dictionaries and lists by their paths, such as `training.losses[0].weight`.

    An empty table or list is a leaf: `[data.fertility]` without keys selects a strategy by its defaults.
    """
    if isinstance(value, Mapping) and value:
        items = ((f"{path}.{key}" if path else key, item) for key, item in value.items())
    elif isinstance(value, list) and value:
        items = ((f"{path}[{number}]", item) for number, item in enumerate(value))
    else:
        return {path: value}
    return {key: leaf for inner, item in items for key, leaf in option_values(item, inner).items()}
