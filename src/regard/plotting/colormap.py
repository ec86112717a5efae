"""Shared parts of all figures: colors, labels, and attention weights with matching labels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len, set_cell_size

from regard.errors import DataError

__all__ = ["INK", "MUTED", "Colormap", "LabeledMaps", "clip_label", "color_of", "label_maps", "printable"]

INK = "#1a1a1a"
MUTED = "#555555"
_COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#b0508c", "#1a1a1a"),
    *("#56a0d8", "#b8860b", "#8a5cc2", "#7f3b08", "#6b8e23"),
)

# Control characters, line separators, direction overrides that extend beyond the word, and characters that
# XML does not allow.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class LabeledMaps:
    """One or more attention maps over the same words.

    Attributes:
        weights: One map per head; rows are target words, columns are source words.
        source: Labels of the columns, printable.
        target: Labels of the rows, printable.
        captions: One caption per head; an empty caption is omitted.
    """

    weights: Float[np.ndarray, "H T S"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Colormap:
    """A sequential color scale for weights from just above 0 to 1.

    Attributes:
        stops: Red, green and blue (0 to 255) of evenly spaced colors along the scale.
    """

    stops: tuple[tuple[int, int, int], ...]

    def color(self, weight: float) -> str:
        """Return the color of a weight as `#rrggbb`; weights are clipped to between 0 and 1."""
        place = min(max(weight, 0.0), 1.0) * (len(self.stops) - 1)
        left = min(int(place), len(self.stops) - 2)
        share = place - left
        mixed = (
            round(a + share * (b - a)) for a, b in zip(self.stops[left], self.stops[left + 1], strict=True)
        )
        return "#" + "".join(f"{part:02x}" for part in mixed)


def color_of(number: int) -> str:
    """Return one of ten colors, chosen for color-blind readers (the first after Okabe & Ito, 2008)."""
    return _COLORS[number % len(_COLORS)]


def label_maps(
    weights: Float[np.ndarray, "T S"] | Float[np.ndarray, "H T S"],
    source: Sequence[str],
    target: Sequence[str],
    captions: Sequence[str] | None = None,
) -> LabeledMaps:
    """Check that the shapes of weights and words match, and make the words printable.

    Args:
        weights: One map, or one map per head.
        source: Source words, one per column.
        target: Target words, one per row.
        captions: One caption per head. Default: several heads are numbered from 0, a single head has none.

    Raises:
        DataError: if the shapes do not match.
    """
    if weights.ndim not in (2, 3) or weights.shape[-2:] != (len(target), len(source)):
        raise DataError(
            f"attention weights have shape {weights.shape}: expected target x source, "
            f"{len(target)} x {len(source)}, or one such map per head"
        )
    heads = weights[None] if weights.ndim == 2 else weights  # (H, T, S)
    if captions is None:
        captions = [f"head {head}" for head in range(len(heads))] if len(heads) > 1 else [""] * len(heads)
    if len(captions) != len(heads):
        raise DataError(f"{len(captions)} captions for {len(heads)} heads: expected one caption per head")
    return LabeledMaps(
        weights=heads.astype(np.float64),
        source=tuple(map(printable, source)),
        target=tuple(map(printable, target)),
        captions=tuple(map(printable, captions)),
    )


def printable(text: str) -> str:
    """Return the text with U+FFFD instead of each character that would break a picture."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def clip_label(label: str, cells: int) -> str:
    """Return the label cut to a number of terminal cells; `…` marks a label that was longer."""
    if cell_len(label) <= cells:
        return label
    return set_cell_size(label, max(cells - 1, 0)).rstrip() + "…"
