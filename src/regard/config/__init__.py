"""Configuration: classes, TOML files, registries, plugins, results, and the reference of options.

The public names of `regard.config.classes` are imported lazily, because it imports pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.config.classes import (
        TaggedUnion,
        apply_overrides,
        config_classes,
        configclass,
        dump_toml,
        from_dict,
        is_configclass,
        option,
        parse_toml,
        read_config,
        read_toml,
        to_dict,
    )

__all__ = [
    "TaggedUnion",
    "apply_overrides",
    "config_classes",
    "configclass",
    "dump_toml",
    "from_dict",
    "is_configclass",
    "option",
    "parse_toml",
    "read_config",
    "read_toml",
    "to_dict",
]


def __getattr__(name: str) -> Any:
    """Import a name of `regard.config.classes` at its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'regard.config' has no attribute {name!r}")
    return getattr(import_module("regard.config.classes"), name)
