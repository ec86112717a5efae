"""Configuration: classes, TOML files, registries, plugins, results, and the reference of options.

The public names of `regard.config.classes` are imported lazily, because it imports pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.config.classes import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Import a name of `regard.config.classes` at its first use (PEP 562)."""
    classes = import_module("regard.config.classes")
    if name not in classes.__all__:
        raise AttributeError(f"module 'regard.config' has no attribute {name!r}")
    return getattr(classes, name)
