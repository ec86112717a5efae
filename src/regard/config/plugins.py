"""Plugins: Python modules that register parts (attention mechanisms, models, losses, ...) when imported.

A plugin is imported in one of three ways:

- An installed package with an entry point in the group `regard.plugins` is imported when a name is not built
  in, or when all names are listed.
- The key `plugins` of the user's own configuration file names packages and files.
- The option `--plugin` and the argument `plugins` of functions name packages and files.

A model directory records the plugins that it needs, but it never causes an import: its plugins must be
installed with an entry point or be given by the user.
"""

import contextlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from regard.errors import PluginError

ENTRY_POINT_GROUP = "regard.plugins"

logger = logging.getLogger(__name__)

_loaded: dict[str, str] = {}
"""The plugins that the user gave and that have been imported, in order: by the name in a model directory, the
import name or the absolute path."""
_loading: ContextVar[str | None] = ContextVar("plugin", default=None)
"""The plugin that is being imported."""


def load_plugins(names: Iterable[str]) -> None:
    """Import plugins that the user gave.

    Args:
        names: Import names of packages or modules, or paths of Python files (`.py`).

    Raises:
        PluginError: if a plugin is missing or raises an exception when it is imported.
    """
    # A string is iterable: each of its characters would be the name of a plugin.
    if isinstance(names, str):
        raise PluginError(f"plugins={names!r}: expected a list of names, such as [{names!r}]")
    for name in names:
        short = plugin_name(name)
        if short in _loaded:
            continue
        # Parts that are registered during the import belong to this plugin.
        with _importing(short, name):
            if name.endswith(".py"):
                _import_file(Path(name))
            else:
                _import_module(name)
        # A plugin is recorded only after its import, so that a failed one can be loaded again.
        _loaded[short] = str(Path(name).absolute()) if name.endswith(".py") else name


def load_installed() -> None:
    """Import the plugins of installed packages, once. A plugin that fails is skipped with a warning."""
    # A plugin that looks up a part while it is imported must not wait for the others.
    if _loading.get() is None:
        _import_installed()


@cache
def _import_installed() -> frozenset[str]:
    """Import the plugins of installed packages, and return the names of those that did not fail."""
    packages: set[str] = set()
    for point in entry_points(group=ENTRY_POINT_GROUP):
        package = point.module.partition(".")[0]
        try:
            with _importing(package, point.value):
                point.load()
        except PluginError as error:
            logger.warning("%s", error)
        else:
            packages.add(package)
    return frozenset(packages)


def loaded() -> Mapping[str, str]:
    """Return the imported plugins that the user gave, with the sources that load them in another process.

    A source is an import name or an absolute path.
    """
    return _loaded


def is_loaded(name: str) -> bool:
    """Return whether a plugin has been imported: one that the user gave, or an installed one."""
    return name in _loaded or name in _import_installed()


def plugin_name(name: str) -> str:
    """Return the name by which a model directory records a plugin: the import name, or the file's name."""
    return Path(name).name if name.endswith(".py") else name


def origin(part: Any) -> str | None:
    """Return the plugin that a new part belongs to; None if the part is built in."""
    current = _loading.get()
    module = str(part.__module__)
    return current if current is not None else None if module.partition(".")[0] == "regard" else module


@contextlib.contextmanager
def _importing(short: str, name: str) -> Iterator[None]:
    """Assign new parts to a plugin, and replace an exception of its code by a PluginError."""
    token = _loading.set(short)
    try:
        yield
    except PluginError:
        raise
    except Exception as error:  # the code of a plugin may raise anything
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        raise PluginError(
            f"plugin {name!r} cannot be imported: {type(error).__name__}: {error}{where}"
        ) from error
    finally:
        _loading.reset(token)


def _import_module(name: str) -> None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise PluginError(f"plugin {name!r} is not installed: install it, or give the path of its .py file")
    importlib.import_module(name)


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise PluginError(f"plugin {str(path)!r}: no such file")
    # A prefix keeps a file such as torch.py from hiding a package.
    name = f"regard_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"plugin {str(path)!r}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and type hints look a module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
