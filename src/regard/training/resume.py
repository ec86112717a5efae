"""Whether a run that goes on is the run that was begun: the settings in which two configs differ."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["differences"]


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], harmless: Callable[[str], bool]
) -> list[str]:
    """The settings in which two configs differ, one line each, by the path of their keys.

    Args:
        before: A config as plain dictionaries.
        now: Another.
        harmless: Whether a key, such as `training.batch.size` or `data.train[0].weight`, may differ.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(now, ""))
    return [
        f"{key}: {_shown(old, key)} there, {_shown(new, key)} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not harmless(key)
    ]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dictionaries and lists with their paths."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    return repr(leaves[key]) if key in leaves else "absent"
