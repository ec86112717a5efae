"""The description of a run: its configuration, and the file in which a model directory stores it."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.config import (
    apply_override,
    configclass,
    dump_toml,
    from_dict,
    option,
    read_config,
    read_toml,
)
from regard.config.plugins import is_loaded, load_plugins, loaded, plugin_name
from regard.config.registry import plugins_of
from regard.data.config import DataConfig
from regard.errors import CheckpointError, ConfigError, DataError
from regard.generation.config import GenerationConfig
from regard.models.formats import foreign_format, missing_directory_message
from regard.models.registry import MODELS, ModelConfig
from regard.models.rnn.config import RnnConfig
from regard.text.files import write_atomic
from regard.text.paths import check_name
from regard.text.reading import checked_file, read_bytes
from regard.training.config import TrainingConfig
from regard.training.losses.base import build_loss
from regard.training.resume import CONFIG_FILE
from regard.version import __version__

__all__ = [
    "END_MARKER",
    "RunConfig",
    "listed_plugins",
    "load_config",
    "read_run_config",
    "write_config",
]

_log = logging.getLogger(__name__)

MAIN_MODULE = "__main__"
END_MARKER = "# end of config\n"
"""Last line of a config file. It detects truncation: a truncated config would still be valid TOML, with
defaults for the missing options."""


@configclass
class RunConfig:
    """All settings of a run: data, model, training and search."""

    output_dir: str | None = option(
        default=None,
        help="Output directory of the run. Default: `runs/NAME` in the current directory for a config file "
        "`NAME.toml`.",
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the data and dropout.",
        ge=0,
        le=2**32 - 1,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    num_threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )
    plugins: tuple[str, ...] = option(
        default=(),
        help="Plugins to import: Python packages or files (.py) that register attention mechanisms, models, "
        "losses and other parts. Default: none; plugins with an entry point need not be listed.",
    )
    data: DataConfig = option(help="Training and validation data.")
    model: ModelConfig = option(default=RnnConfig, help="Architecture and size of the model.")
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")
    generation: GenerationConfig = option(
        default=GenerationConfig, help="Default search settings for translation."
    )

    def with_alignment(self) -> "RunConfig":
        """Return the config in which word alignments come from the supervised attention.

        A layer or heads given in `generation.alignment` take precedence.
        """
        alignment = self.generation.alignment
        supervised = (build_loss(loss).supervised_attention for loss in self.training.losses)
        taught = next((attention for attention in supervised if attention is not None), None)
        if taught is None or alignment.layer is not None or alignment.map != "attention":
            return self
        settings = dataclasses.replace(alignment, layer=taught[0], heads=alignment.heads or taught[1])
        return dataclasses.replace(self, generation=dataclasses.replace(self.generation, alignment=settings))

    def with_plugins(self) -> "RunConfig":
        """Return the config with all plugins that the run needs, as a model directory records them.

        A part that a script or notebook defines cannot be loaded elsewhere; a warning states the remedy.
        """
        plugins = plugins_of(self)
        if MAIN_MODULE in plugins:
            plugins = plugins - {MAIN_MODULE}
            _log.warning(
                "the run uses a part that a script or notebook defines, so that only there the model can be "
                "loaded; to load it elsewhere, move the part to a file and give it as a plugin: "
                "--plugin parts.py, in Python plugins=['parts.py']"
            )
        needed = [plugin_name(name) for name in (*self.plugins, *loaded(), *sorted(plugins))]
        return dataclasses.replace(self, plugins=tuple(dict.fromkeys(needed)))

    def __post_init__(self) -> None:
        """Check that the sections of the config are compatible."""
        if not MODELS.part_of(self.model).is_neural:
            if self.data.fertility or self.training.losses:
                raise ValueError(
                    f"data.fertility, training.losses: model.kind = {self.model.kind!r} has no attention; "
                    "remove these sections"
                )
            return
        attention = getattr(self.model, "attention", None)
        # Pointer attention advances at `step` actions, which only the tokenizer `actions` produces.
        wanted = getattr(attention, "target_tokenizer", None)
        if attention is not None and wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} requires data.target_tokenizer.kind = {wanted!r}")


def read_run_config(path: Path | str, overrides: Iterable[str] = ()) -> RunConfig:
    """Read the config of a run; directories that are not set are named after the file.

    The plugins that the file lists are imported.

    Args:
        path: The TOML file. For `NAME.toml` the default directories are `runs/NAME` and `prepared/NAME`.
        overrides: Overrides of the form `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong; see `regard.config.read_config`.
        PluginError: if a plugin is missing or cannot be imported.
    """
    data, name = read_toml(path), Path(path).stem
    for override in overrides:
        apply_override(data, override)
    # Plugins are imported before validation, which needs the parts that they register.
    load_plugins(listed_plugins(data))
    config = from_dict(RunConfig, data, origin=str(path))
    output_dir, cache_dir = config.output_dir or f"runs/{name}", config.data.cache_dir or f"prepared/{name}"
    for directory in (output_dir, cache_dir):
        check_name(directory)
    data_config = dataclasses.replace(config.data, cache_dir=cache_dir)
    return dataclasses.replace(config, output_dir=output_dir, data=data_config)


def listed_plugins(data: Mapping[str, Any]) -> list[str]:
    """Return the value of the key `plugins`; empty if it is not a list of strings, a later error."""
    names = data.get("plugins", ())
    return [*names] if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _missing_plugins(path: Path) -> list[str]:
    """Return the plugins that a config lists and that are not loaded; empty if the file is not TOML."""
    try:
        return [name for name in listed_plugins(read_toml(path)) if not is_loaded(name)]
    except ConfigError:
        return []


def load_config(model_dir: Path | str) -> RunConfig:
    """Return the config of the run that trained a model, or an equivalent one for a directory of a library.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    model_dir = Path(model_dir)
    check_name(model_dir)
    if not model_dir.is_dir():
        raise CheckpointError(missing_directory_message(model_dir))
    if (model_format := foreign_format(model_dir)) is not None:
        return model_format.load_run_config(model_dir)
    path = model_dir / CONFIG_FILE
    try:
        if not read_bytes(checked_file(model_dir, CONFIG_FILE)).decode().endswith(END_MARKER):
            raise CheckpointError(f"{path}: truncated: the file does not end with {END_MARKER.strip()!r}")
        return read_config(RunConfig, path)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: corrupt: not UTF-8 at byte {error.start + 1}") from None
    except ConfigError as error:
        # The plugins of a model directory are never imported: a directory must not execute code.
        if missing := _missing_plugins(path):
            raise CheckpointError(
                f"{model_dir}: the model needs the plugin {', '.join(map(repr, missing))}, which is not "
                "loaded: install it with an entry point, or give it by --plugin (in Python: plugins=[...])"
            ) from None
        raise CheckpointError(
            f"{error}\n{model_dir} is not a model directory, or was written by another version of regard"
        ) from None


def write_config(config: RunConfig | Mapping[str, Any], model_dir: Path) -> None:
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
