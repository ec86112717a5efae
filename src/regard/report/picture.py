"""A finished picture: seen in a notebook, saved as SVG, or as PNG for print."""

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from regard.data.files import write_atomic
from regard.errors import UsageError
from regard.report.fonts import families

__all__ = ["DPI", "Picture", "png"]

DPI = 300
"""Dots an inch, what printers ask for."""
_CSS_DPI = 96  # of an SVG's pixels
_INCH = 0.0254  # metres
_FIRST_CHUNK = 33  # where the header of a PNG file ends: its signature and IHDR
_PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><text y="16">H</text></svg>'


@dataclass(frozen=True)
class Picture:
    """A picture; a notebook shows it.

    Attributes:
        svg: The text of its SVG file.
    """

    svg: str

    def save(self, path: Path | str, dpi: int = DPI) -> Path:
        """Write it to a file.

        Args:
            path: Ends in `.svg` or `.png`.
            dpi: Dots an inch of a PNG file.

        Returns:
            The path.

        Raises:
            UsageError: if the path ends otherwise, or PNG cannot be made here.
            DataError: if the file cannot be written.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".svg", ".png"):
            raise UsageError(
                f"{path}: a picture is saved as .svg or .png, not as {kind or 'a name without end'}"
            )
        write_atomic(path, self.svg.encode() if kind == ".svg" else png(self.svg, dpi))
        return path

    def _repr_svg_(self) -> str:
        return self.svg


def png(svg: str, dpi: int = DPI) -> bytes:
    """A picture as pixels, on paper as large as on the screen.

    Text is set in the first of a list of plain typefaces that this machine has, or in any that it has.

    Args:
        svg: The text of an SVG file.
        dpi: Dots an inch.

    Returns:
        The content of a PNG file.

    Raises:
        UsageError: if the package that draws is not installed, there is no typeface, or `dpi` is below 1.
    """
    if dpi < 1:
        raise UsageError(f"a picture of {dpi} dots an inch; expected at least 1")
    drawn = _draw(svg, _typeface(), dpi / _CSS_DPI)
    metre = round(dpi / _INCH)
    content = b"pHYs" + struct.pack(">IIB", metre, metre, 1)
    size = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return drawn[:_FIRST_CHUNK] + size + drawn[_FIRST_CHUNK:]


def _draw(svg: str, family: str | None, zoom: float) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise UsageError(
            "PNG pictures need the package resvg-py: pip install 'regard[png]'; SVG needs nothing"
        ) from None
    # Whatever a picture asks for is to be found: where a name is not known, the text would be left out.
    try:
        return svg_to_bytes(
            svg_string=svg,
            zoom=zoom,
            background="#ffffff",
            font_family=family,
            serif_family=family,
            sans_serif_family=family,
            monospace_family=family,
        )
    except ValueError as error:
        raise UsageError(f"the picture cannot be drawn as PNG: {error}") from None


@lru_cache(maxsize=1)
def _typeface() -> str:
    """A typeface that puts letters on the page."""
    blank = _draw(_PROBE.replace(">H<", "><"), None, 1.0)
    for family in families():
        if _draw(_PROBE, family, 1.0) != blank:
            return family
    raise UsageError(
        "PNG pictures need a typeface, and none was found: install one (Debian, Ubuntu: apt-get install "
        "fonts-dejavu-core); SVG needs none"
    )
