"""The configuration of a run: the description of a model, and how it is trained.

A resumed run keeps the options that `config.toml` states, without the defaults that a later version of regard
adds (`resumed_config`), so that the checksums of weights and training states written before and after the
interruption are equal, whenever the process is killed.
"""

import dataclasses
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.config import apply_overrides, configclass, from_dict, option, read_toml
from regard.config.plugins import load_plugins, loaded, plugin_name
from regard.config.registry import plugins_of
from regard.models.registry import MODELS
from regard.runs.checksums import compare_options, is_path_option, option_values, options_checksum
from regard.runs.description import ModelDescription, listed_plugins, read_model_config
from regard.text.paths import check_name
from regard.training.config import RunOptions, TrainingConfig
from regard.training.losses.base import resumable_loss_options

_log = logging.getLogger(__name__)

MAIN_MODULE = "__main__"
RESUMABLE_KEYS = (
    "output_dir",
    "plugins",
    "device",
    "num_threads",
    "generation",
    "training.max_epochs",
    "training.max_steps",
    "training.max_minutes",
    "training.checkpoint",
    "training.logging",
    "training.validation.early_stopping_patience",
)
"""Options that may change when a run is resumed: limits, logging and paths. Texts are checked by content."""


@configclass
class RunConfig(ModelDescription, RunOptions):
    """All settings of a run: data, model, search and training."""

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
                "--plugin parts.py, in Python regard.load_plugins(['parts.py'])"
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
    overrides = tuple(overrides)
    data, name = apply_overrides(read_toml(path), overrides), Path(path).stem
    # Plugins are imported before validation, which needs the parts that they register.
    load_plugins(listed_plugins(data))
    config = from_dict(RunConfig, data, str(path), overrides)
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


def _is_resumable(key: str, loss_options: Collection[str]) -> bool:
    """Return whether an option, such as `training.max_epochs`, may change when a run is resumed."""
    named = any(key == name or key.startswith((f"{name}.", f"{name}[")) for name in RESUMABLE_KEYS)
    return named or is_path_option(key) or key in loss_options


def fixed_options_checksum(stated: Mapping[str, Any]) -> str:
    """Return the SHA-256 checksum of the options of a run that must not change when it is resumed.

    Args:
        stated: The options that the config file states.
    """
    loss_options = resumable_loss_options(stated)
    fixed = {k: v for k, v in option_values(stated).items() if not _is_resumable(k, loss_options)}
    return options_checksum(fixed)


def resumed_config(stated: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to state in the config file of a resumed run.

    Options that may change come from the new config. All others remain exactly as stated, so that their
    checksum is unchanged: an option that a later version added is not stated.

    Args:
        stated: The options that the config file of the run states.
        config: The new config as plain dictionaries, whose other options have the same effective values.
    """
    # An option may change only if the old and the new term at its place in the list permit it.
    loss_options = resumable_loss_options(stated) & resumable_loss_options(config)

    def merge(old: Any, new: Any, path: str) -> Any:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            merged: dict[str, Any] = {}
            for key in [*old, *(key for key in new if key not in old)]:
                inner = f"{path}.{key}" if path else key
                if _is_resumable(inner, loss_options):
                    merged |= {key: new[key]} if key in new else {}
                elif key in old:
                    merged[key] = merge(old[key], new.get(key), inner)
            return merged
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = zip(old, new, strict=True)
            return [merge(*pair, f"{path}[{number}]") for number, pair in enumerate(pairs)]
        return old

    return merge(stated, config, "")


def config_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one line for each option that must not differ but does, sorted by the path of the option.

    Args:
        before: The config of the existing run as plain dictionaries.
        now: The new config.
    """
    loss_options = resumable_loss_options(before) & resumable_loss_options(now)
    return [
        f"{key}: {old} in the existing run, {new} now"
        for key, old, new in sorted(compare_options(before, now))
        if not _is_resumable(key, loss_options)
    ]
