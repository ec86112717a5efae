"""Consistency checks of a resumed run: the options that may change, and those that must not.

A resumed run keeps the options that `config.toml` states, without the defaults that a later version of regard
adds (`resumed_config`), so that the checksums of weights and training states written before and after the
interruption are equal, whenever the process is killed.
"""

from collections.abc import Collection, Mapping
from typing import Any

from regard.runs.checksums import compare_options, is_path_option, option_values, options_checksum
from regard.training.losses.base import resumable_loss_options

__all__ = ["config_differences", "fixed_options_checksum", "resumed_config"]

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
