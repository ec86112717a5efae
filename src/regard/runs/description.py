"""The description of a model: what inference needs of the configuration in its directory.

`config.toml` of a model directory contains the whole configuration of the run that trained the model
(`regard.training.run_config.RunConfig`). Its tables of training are not read here, so that a model loads
without the plugins that only its training needs, such as one with a loss term.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.config import configclass, dump_toml, from_dict, option, read_toml
from regard.config.plugins import is_loaded
from regard.data.config import DataConfig
from regard.errors import CheckpointError, ConfigError, DataError
from regard.generation.config import GenerationConfig
from regard.models.registry import MODELS, ModelConfig, foreign_format
from regard.models.rnn.config import RnnConfig
from regard.text.files import write_atomic
from regard.text.paths import check_name
from regard.text.reading import checked_file, read_bytes
from regard.version import __version__

CONFIG_FILE = "config.toml"
END_MARKER = "# end of config\n"
"""Last line of a config file. It detects truncation: a truncated config would still be valid TOML, with
defaults for the missing options."""
TRAINING_KEYS = ("output_dir", "seed", "device", "num_threads", "training")
"""The options of a run that do not describe the trained model."""

D = TypeVar("D", bound="ModelDescription")


@configclass
class ModelDescription:
    """The settings of a model: its text, its architecture and its default search settings."""

    plugins: tuple[str, ...] = option(
        default=(),
        help="Plugins to import: Python packages or files (.py) that register attention mechanisms, models, "
        "losses and other parts. Default: none; plugins with an entry point need not be listed.",
    )
    data: DataConfig = option(help="Training and validation data.")
    model: ModelConfig = option(default=RnnConfig, help="Architecture and size of the model.")
    generation: GenerationConfig = option(
        default=GenerationConfig, help="Default search settings for translation."
    )

    def __post_init__(self) -> None:
        """Check that the sections of the config are compatible."""
        if not MODELS.part_of(self.model).is_neural:
            if self.data.fertility:
                raise ValueError(f"data.fertility: model.kind = {self.model.kind!r} has no attention")
            return
        attention = getattr(self.model, "attention", None)
        # Pointer attention advances at `step` actions, which only the tokenizer `actions` produces.
        wanted = getattr(attention, "target_tokenizer", None)
        if attention is not None and wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} requires data.target_tokenizer.kind = {wanted!r}")


def load_description(model_dir: Path | str) -> ModelDescription:
    """Return the description of a model, or an equivalent one for a directory of another library.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    model_dir = Path(model_dir)
    if (model_format := foreign_format(model_dir)) is not None:
        return model_format.describe_model(model_dir)
    return read_model_config(ModelDescription, model_dir)


def read_model_config(cls: type[D], model_dir: Path | str) -> D:
    """Read the config of a model directory as a class that contains the description of a model.

    Raises:
        CheckpointError: as in `load_description`.
    """
    model_dir = Path(model_dir)
    check_name(model_dir)
    if not model_dir.is_dir():
        raise CheckpointError(f"{model_dir}: no such model directory")
    path = model_dir / CONFIG_FILE
    stated = read_stated_config(model_dir)
    fields = {field.name for field in dataclasses.fields(cls)}
    try:
        return from_dict(
            cls,
            {key: value for key, value in stated.items() if key in fields or key not in TRAINING_KEYS},
            origin=str(path),
        )
    except ConfigError as error:
        # The plugins of a model directory are never imported: a directory must not execute code.
        if missing := [name for name in listed_plugins(stated) if not is_loaded(name)]:
            raise CheckpointError(
                f"{model_dir}: the model needs the plugin {', '.join(map(repr, missing))}, which is not "
                "loaded: install it with an entry point, or give it by --plugin (in Python: "
                "regard.load_plugins([...]))"
            ) from None
        raise CheckpointError(
            f"{error}\n{model_dir} is not a model directory, or was written by another version of regard"
        ) from None


def read_stated_config(model_dir: Path) -> dict[str, Any]:
    """Return the options that the config of a model directory states, without defaults.

    Raises:
        CheckpointError: if the file is missing, truncated or not TOML.
    """
    path = model_dir / CONFIG_FILE
    try:
        if not read_bytes(checked_file(model_dir, CONFIG_FILE)).endswith(END_MARKER.encode()):
            raise CheckpointError(f"{path}: truncated: the file does not end with {END_MARKER.strip()!r}")
        return read_toml(path)
    except (ConfigError, DataError) as error:
        raise CheckpointError(str(error)) from None


def listed_plugins(data: Mapping[str, Any]) -> list[str]:
    """Return the value of the key `plugins`; empty if it is not a list of strings, a later error."""
    names = data.get("plugins", ())
    return [*names] if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def write_config(config: ModelDescription | Mapping[str, Any], model_dir: Path) -> None:
    """Write the config into a model directory, after a line with the version of regard.

    Args:
        config: The config, or the options to state in the file.
        model_dir: The model directory.

    Raises:
        DataError: if the file cannot be written.
    """
    write_atomic(
        model_dir / CONFIG_FILE,
        f"# Written by regard {__version__}\n{dump_toml(config)}\n{END_MARKER}".encode(),
    )
