"""Extensions: packages in `regard.extensions`, each with an `EXTENSION` that lists its parts and commands.

Nothing imports an extension by its name, so its folder can be deleted. The names below are strings of the
form `module` or `module:object`, so that the description of an extension imports nothing.
"""

import os
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import UsageError


@dataclass(frozen=True)
class Extension:
    """The description of an extension; `EXTENSION` in its package.

    Attributes:
        names: Public names of `regard`, with the module that defines each.
        commands: Commands of the command line, by their group in the help.
        parts: Modules that register parts, by the noun of the registry, such as `model`.
        hooks: Objects or modules that a place of the package asks for by the name of the hook, such as
            `report_check`.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)


@cache
def installed_extensions() -> Mapping[str, Extension]:
    """Return the extensions by the name of their folder, in alphabetical order."""
    package = import_module("regard.extensions")
    return {
        folder.name: import_module(f"regard.extensions.{folder.name}").EXTENSION
        for folder in pkgutil.iter_modules(package.__path__)
    }


def named_object(name: str) -> Any:
    """Import and return a module, or an object `module:object`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)


def hook(name: str) -> Any | None:
    """Import and return the object that an extension provides for a hook; None if no extension does."""
    for extension in installed_extensions().values():
        if name in extension.hooks:
            return named_object(extension.hooks[name])
    return None


def resolve_directory(path: Path | str) -> Path:
    """Return a path, or the directory in which an extension stores a model of a public collection.

    Raises:
        RegardError: if there is neither such a path nor such a model.
    """
    download = None if os.path.lexists(path) else hook("download")
    return Path(path) if download is None else download(str(path))


def require_hook(name: str, extension: str) -> Any:
    """Import and return the object that an extension provides for a hook.

    Raises:
        UsageError: if no extension does; names the usual one.
    """
    provided = hook(name)
    if provided is None:
        raise UsageError(f"the extension `{extension}` is not installed")
    return provided
