"""Registries: one per kind of part (attention mechanisms, models, losses, ...), open to plugins.

A part is a class with a configuration class, whose field `kind` is the name of the part:

    @configclass
    class TopKAttentionConfig:
        kind: Literal["topk"] = option(default="topk", help="Attention mechanism: the k highest scores.")
        k: int = option(default=8, help="Number of positions.", ge=1)

    @register_attention("topk", TopKAttentionConfig)
    class TopKAttention(Attention): ...

The built-in parts and those of plugins (`regard.config.plugins`) are registered in the same way. A registry
is also the annotation of a configuration field: `Annotated[PartConfig, ATTENTION]` accepts a table of every
registered kind, validated by the class of its kind. Parts without options of their own (metrics, score
functions, normalizers) are registered in a `NamedRegistry`, and their field is a string.
"""

import importlib
import itertools
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from regard.config import TaggedUnion, is_configclass, plugins
from regard.config.classes import kind_of
from regard.config.extensions import installed_extensions
from regard.errors import PluginError

P = TypeVar("P")
Q = TypeVar("Q")
Contract = Callable[[Any], str | None]

_CONFIG_PLUGINS: dict[type[Any], str] = {}
"""The plugin of each configuration class that a plugin registered."""


@runtime_checkable
class PartConfig(Protocol):
    """The configuration of a part: a configuration class with the field `kind`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> str:
        """The name under which the part is registered."""
        ...


@dataclass(frozen=True)
class Entry(Generic[P]):
    """A registered part.

    Attributes:
        part: The class or function.
        config: Its configuration class; None in a `NamedRegistry`.
        plugin: The plugin that registered it; None if it is built in.
        source: The qualified name of the class or function that was registered.
        home: Its file, or its module without a file, and its name in there.
    """

    part: P
    config: type[Any] | None
    plugin: str | None
    source: str
    home: tuple[str, str]


class NamedRegistry(Generic[P]):
    """The parts of one kind by name.

    Args:
        noun: The noun for a part, as in "attention mechanism".
        packages: The modules that register the built-in parts, and packages of such modules; they are
            imported when a part is looked up.
        contract: Returns the reason why an object is not a part of this kind, or None; see `subclass_of`.
        field_names: Names that the fields of configurations accept in addition to those of parts.
    """

    def __init__(
        self,
        noun: str,
        packages: Iterable[str] = (),
        contract: Contract | None = None,
        field_names: tuple[str, ...] = (),
    ) -> None:
        """Create an empty registry."""
        self.noun, self._contract, self.field_names = noun, contract, field_names
        self._packages: tuple[str, ...] | None = tuple(packages)
        self._entries: dict[str, Entry[P]] = {}

    def register(self, name: str) -> Callable[[Q], Q]:
        """Return a decorator that registers a part under a name.

        Raises:
            PluginError: if another part has this name.
        """

        def decorate(part: Q) -> Q:
            self.add(name, part)
            return part

        return decorate

    def add(self, name: str, part: Any, config: type[Any] | None = None, source: Any = None) -> None:
        """Register a part under a name.

        Args:
            name: The name.
            part: The part.
            config: Its configuration class, if it has one.
            source: The class or function that the part was made from. Default: the part.

        Raises:
            PluginError: if another part has this name, or the part does not implement the contract.
        """
        source = part if source is None else source
        if not isinstance(name, str) or not name.isidentifier():
            raise PluginError(f"{self.noun} {name!r}: a name consists of letters, digits and underscores")
        old, qualified_name = self._entries.get(name), f"{source.__module__}.{_shown(source)}"
        # A file may be imported twice under different names: as a plugin, and by `import`.
        file = getattr(sys.modules.get(source.__module__), "__file__", None)
        home = source.__module__ if file is None else str(Path(file).resolve()), _shown(source)
        # A cell of a notebook that is run again defines the same class again.
        if old is not None and old.home != home:
            raise PluginError(
                f"{self.noun} {name!r} is already registered by {old.source}: "
                f"choose another name for {qualified_name}"
            )
        if self._contract is not None and (problem := self._contract(source)) is not None:
            raise PluginError(f"{self.noun} {name!r}: {qualified_name} {problem}")
        plugin = plugins.origin(source)
        self._entries[name] = Entry(part, config, plugin, qualified_name, home)
        if config is not None and plugin is not None:
            _CONFIG_PLUGINS[config] = plugin

    def names(self) -> tuple[str, ...]:
        """Return all names, including those of installed plugins."""
        self._import_packages()
        plugins.load_installed()
        return tuple(self._entries)

    def get(self, name: str) -> P | None:
        """Return the part with a name; None if there is none."""
        entry = self._entry(name)
        return None if entry is None else entry.part

    def _entry(self, name: str) -> Entry[P] | None:
        if name not in self._entries:
            self._import_packages()
        if name not in self._entries:
            # Installed plugins are imported only when a name is not built in.
            plugins.load_installed()
        return self._entries.get(name)

    def _import_packages(self) -> None:
        # The list is cleared first, because a module may look up a part while it is imported. A second import
        # of the packages would then begin inside the first.
        packages, self._packages = self._packages, None
        if packages is None:
            return
        added = (extension.parts.get(self.noun, ()) for extension in installed_extensions().values())
        for package in itertools.chain(packages, *added):
            path = getattr(importlib.import_module(package), "__path__", ())
            for module in pkgutil.iter_modules(path, f"{package}."):
                importlib.import_module(module.name)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Build the schema of a string field that must be a registered name."""

        def check(value: str) -> str:
            if value not in self.field_names and self._entry(value) is None:
                known = " or ".join(repr(name) for name in (*self.field_names, *self.names()))
                raise PydanticCustomError("part", "{text}", {"text": f"expected {known}"})
            return value

        return core_schema.no_info_after_validator_function(check, core_schema.str_schema(strict=True))


class Registry(TaggedUnion, NamedRegistry[P]):
    """The parts of one kind, each with its configuration class.

    Args:
        noun: The noun for a part.
        default: The kind of a table without the key `kind`. If it is empty, this key is required.
        packages: As in `NamedRegistry`.
        contract: As in `NamedRegistry`.
    """

    advice = ", or a kind of a plugin (--plugin FILE; in Python: regard.load_plugins([FILE]))"

    def __init__(
        self, noun: str, default: str, packages: Iterable[str] = (), contract: Contract | None = None
    ) -> None:
        """Create an empty registry."""
        TaggedUnion.__init__(self, default)
        NamedRegistry.__init__(self, noun, packages, contract)

    def register(self, name: str, config: type[Any] | None = None) -> Callable[[Q], Q]:
        """Return a decorator that registers a part with its configuration class.

        Args:
            name: The kind, as in `kind = "topk"`.
            config: The configuration class. Default: the class in the annotation of the parameter `config` of
                the part's `__init__`.

        Raises:
            PluginError: if another part has this name, the configuration class is missing or does not have
                the field `kind` with this name, or the part does not implement the contract.
        """

        def decorate(part: Q) -> Q:
            chosen = typing.get_type_hints(part.__init__).get("config") if config is None else config
            if chosen is None:
                raise PluginError(
                    f"{self.noun} {name!r}: the parameter `config` of __init__ has no annotation: annotate "
                    "it with the configuration class, or give the class as the second argument"
                )
            if not is_configclass(chosen):
                raise PluginError(
                    f"{self.noun} {name!r}: {_shown(chosen)} is not a configuration class: decorate it with "
                    "@regard.configclass"
                )
            if kind_of(chosen) != name:
                raise PluginError(
                    f"{self.noun} {name!r}: {_shown(chosen)} needs the field "
                    f'`kind: Literal["{name}"] = "{name}"`'
                )
            self.add(name, part, chosen)
            return part

        return decorate

    def config_classes(self) -> Iterator[type[Any]]:
        """Yield the configuration classes of all parts, including those of installed plugins."""
        for name in self.names():
            config = self._entries[name].config
            assert config is not None
            yield config

    def part_of(self, config: PartConfig) -> P:
        """Return the part that a configuration describes.

        Raises:
            PluginError: if the kind is not registered.
        """
        part = self.get(config.kind)
        if part is None:
            raise PluginError(f"{self.noun} {config.kind!r} is not registered")
        return part

    def find_config(self, source: Any, kind: str) -> type[Any] | None:
        """Return the configuration class of a kind; None if there is none."""
        entry = self._entry(kind)
        return None if entry is None else entry.config


def subclass_of(base: type[Any]) -> Contract:
    """Return the contract of classes that derive from a base class and define all its abstract methods."""

    def check(part: Any) -> str | None:
        if not isinstance(part, type) or not issubclass(part, base):
            return f"is not a subclass of {base.__module__}.{base.__qualname__}"
        missing = sorted(getattr(part, "__abstractmethods__", ()))
        return f"does not define {' and '.join(f'`{name}`' for name in missing)}" if missing else None

    return check


def plugins_of(config: Any) -> set[str]:
    """Return the plugins that registered the parts of a configuration, at any depth."""
    if isinstance(config, tuple | list):
        return {name for item in config for name in plugins_of(item)}
    if not is_configclass(type(config)):
        return set()
    plugin_names = {_CONFIG_PLUGINS.get(type(config))}
    for name, hint in typing.get_type_hints(type(config), include_extras=True).items():
        value = getattr(config, name, None)
        plugin_names |= plugins_of(value)
        if isinstance(value, str):
            entries = [registry._entry(value) for registry in _named_registries(hint)]
            plugin_names |= {entry.plugin for entry in entries if entry is not None}
    return {name for name in plugin_names if name is not None}


def _named_registries(hint: Any) -> Iterator[NamedRegistry[Any]]:
    if isinstance(hint, NamedRegistry):
        yield hint
    for argument in typing.get_args(hint):
        yield from _named_registries(argument)


def _shown(part: Any) -> str:
    """Return the qualified name of a class or function, or another object as text."""
    return getattr(part, "__qualname__", repr(part))
