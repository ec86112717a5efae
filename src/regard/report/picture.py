"""A picture that a notebook displays and that can be saved as SVG or PNG."""

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from regard.data.files import write_atomic
from regard.errors import UsageError
from regard.report.fonts import font_families

__all__ = ["DPI", "Figure", "render_png"]

DPI = 300
"""Default resolution of PNG files in dots per inch, suitable for print."""
_CSS_DPI = 96  # CSS pixels per inch, the unit of SVG lengths
_INCH = 0.0254  # meters
_FIRST_CHUNK = 33  # length of the header of a PNG file in bytes: its signature and IHDR chunk
_PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><text y="16">H</text></svg>'


@dataclass(frozen=True)
class Figure:
    """A picture, which a notebook displays.

    Attributes:
        svg: The text of its SVG file.
    """

    svg: str

    def save(self, path: Path | str, dpi: int = DPI) -> Path:
        """Write the picture to a file.

        Args:
            path: Path that ends in `.svg` or `.png`.
            dpi: Resolution of a PNG file in dots per inch.

        Returns:
            The path.

        Raises:
            UsageError: if the path has another extension, or PNG files cannot be rendered on this machine.
            DataError: if the file cannot be written.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".svg", ".png"):
            raise UsageError(
                f"{path}: a picture is saved as .svg or .png, not as {kind or 'a name without extension'}"
            )
        write_atomic(path, self.svg.encode() if kind == ".svg" else render_png(self.svg, dpi))
        return path

    def _repr_svg_(self) -> str:
        return self.svg


def render_png(svg: str, dpi: int = DPI) -> bytes:
    """Return a picture as PNG, with the same physical size on paper as on the screen.

    Text uses the first installed font from a list of common sans-serif fonts, or any other installed font.

    Args:
        svg: The text of an SVG file.
        dpi: Resolution in dots per inch.

    Returns:
        The content of a PNG file.

    Raises:
        UsageError: if the package `resvg-py` or a font is missing, or `dpi` is below 1.
    """
    if dpi < 1:
        raise UsageError(f"the resolution of a picture is {dpi} dots per inch: expected at least 1")
    rendered = _rasterize(svg, _find_font(), dpi / _CSS_DPI)
    dots = round(dpi / _INCH)  # per meter, as PNG stores the resolution
    content = b"pHYs" + struct.pack(">IIB", dots, dots, 1)
    # A PNG chunk: length of the data without the type, type and data, checksum.
    size = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return rendered[:_FIRST_CHUNK] + size + rendered[_FIRST_CHUNK:]


def _rasterize(svg: str, family: str | None, zoom: float) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise UsageError(
            "PNG pictures need the package resvg-py: pip install 'regard[png]', or save the picture as .svg"
        ) from None
    # All font families are set to an installed font: resvg omits text in a font that it does not find.
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
        raise UsageError(f"the picture cannot be rendered as PNG: {error}") from None


@lru_cache(maxsize=1)
def _find_font() -> str:
    """Return the first font with which a letter is rendered, that is, with which the picture is not blank."""
    blank = _rasterize(_PROBE.replace(">H<", "><"), None, 1.0)
    for family in font_families():
        if _rasterize(_PROBE, family, 1.0) != blank:
            return family
    raise UsageError(
        "PNG pictures need a font, but none was found: install one (Debian, Ubuntu: apt-get install "
        "fonts-dejavu-core), or save the picture as .svg"
    )
