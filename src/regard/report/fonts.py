"""Find the names of the installed fonts, without calling any external program."""

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["font_families"]

_PREFERRED_FAMILIES = (
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Arial",
    "Helvetica",
    "Helvetica Neue",
    "Segoe UI",
    "Verdana",
    "Open Sans",
    "Roboto",
    "Ubuntu",
    "FreeSans",
    "Nimbus Sans",
)
_SUFFIXES = (".ttf", ".otf", ".ttc")
_FAMILY = 1  # ID of the family name in the `name` table of an OpenType file


def font_families() -> Iterator[str]:
    """Yield the names of fonts to try: first common sans-serif fonts, then all installed fonts."""
    yield from _PREFERRED_FAMILIES
    seen: set[str] = set(_PREFERRED_FAMILIES)
    for directory in _font_dirs():
        for path in sorted(path for path in directory.rglob("*") if path.suffix.lower() in _SUFFIXES):
            name = _family(path)
            if name is not None and name not in seen:
                seen.add(name)
                yield name


def _font_dirs() -> list[Path]:
    """Return the font directories of the operating system."""
    home = Path.home()
    if sys.platform == "win32":
        return [Path(os.environ.get("WINDIR", "C:/Windows")) / "Fonts"]
    if sys.platform == "darwin":
        return [Path("/System/Library/Fonts"), Path("/Library/Fonts"), home / "Library/Fonts"]
    return [
        Path("/usr/share/fonts"),
        Path("/usr/local/share/fonts"),
        home / ".fonts",
        home / ".local/share/fonts",
    ]


def _family(path: Path) -> str | None:
    """Return the family name in an OpenType file (the first of a collection), or None if it is unreadable."""
    try:
        data = path.read_bytes()
        # A collection begins with the offsets of its fonts.
        start = struct.unpack_from(">I", data, 12)[0] if data[:4] == b"ttcf" else 0
        tables = struct.unpack_from(">H", data, start + 4)[0]
        for number in range(tables):
            tag, _, offset, _ = struct.unpack_from(">4sIII", data, start + 12 + 16 * number)
            if tag == b"name":
                return _name(data, offset)
    except (OSError, struct.error, UnicodeDecodeError):
        return None
    return None


def _name(data: bytes, table: int) -> str | None:
    """Return the family name in a `name` table; only Unicode and Windows entries, which are UTF-16."""
    _, count, strings = struct.unpack_from(">HHH", data, table)
    for number in range(count):
        platform, _, _, kind, length, offset = struct.unpack_from(">6H", data, table + 6 + 12 * number)
        if kind == _FAMILY and platform in (0, 3):
            start = table + strings + offset
            return data[start : start + length].decode("utf-16-be")
    return None
