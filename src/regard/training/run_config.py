"""The configuration of a run: the description of a model, and how it is trained."""

import dataclasses
import logging
from collections.abc import Iterable
from pathlib import Path

from regard.config import apply_override, configclass, from_dict, option, read_toml
from regard.config.plugins import load_plugins, loaded, plugin_name
from regard.config.registry import plugins_of
from regard.models.registry import MODELS
from regard.runs.description import ModelDescription, listed_plugins, read_model_config
from regard.text.paths import check_name
from regard.training.config import TrainingConfig

__all__ = ["RunConfig", "load_config", "read_run_config"]

_log = logging.getLogger(__name__)

MAIN_MODULE = "__main__"


@configclass
class RunConfig(ModelDescription):
    """All settings of a run: data, model, search and training."""

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
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")

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
        super().__post_init__()
        if self.training.losses and not MODELS.part_of(self.model).is_neural:
            raise ValueError(f"training.losses: model.kind = {self.model.kind!r} has no attention")


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


def load_config(model_dir: Path | str) -> RunConfig:
    """Return the config of the run that trained a model.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    return read_model_config(RunConfig, model_dir)
