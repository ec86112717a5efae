"""What every picture of an attention map needs: weights that fit their labels, and a colour for a weight."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len, set_cell_size

from regard.errors import DataError

__all__ = ["Grid", "Ramp", "clip_label", "make_grid", "printable"]

# Control characters, line separators, changes of direction that outlast the word, and what XML cannot hold.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Grid:
    """One or more attention maps over the same words.

    Attributes:
        weights: One map a head, target words down, source words across.
        source: Labels of the columns, safe to print.
        target: Labels of the rows, safe to print.
        captions: One a head; empty where there is nothing to say.
    """

    weights: Float[np.ndarray, "H T S"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Ramp:
    """A sequential colour scale for the weights from just above 0 to 1.

    Attributes:
        stops: Red, green and blue (0 to 255) at even distances along the scale.
    """

    stops: tuple[tuple[int, int, int], ...]

    def colour(self, weight: float) -> str:
        """The colour of a weight as `#rrggbb`; above 1 counts as 1."""
        place = min(max(weight, 0.0), 1.0) * (len(self.stops) - 1)
        left = min(int(place), len(self.stops) - 2)
        share = place - left
        mixed = (
            round(a + share * (b - a)) for a, b in zip(self.stops[left], self.stops[left + 1], strict=True)
        )
        return "#" + "".join(f"{part:02x}" for part in mixed)


def make_grid(
    weights: Float[np.ndarray, "T S"] | Float[np.ndarray, "H T S"],
    source: Sequence[str],
    target: Sequence[str],
    captions: Sequence[str] | None = None,
) -> Grid:
    """Check that weights and words fit, and make the words safe to print.

    Args:
        weights: One map, or one a head.
        source: Source words, as many as columns.
        target: Target words, as many as rows.
        captions: One a head; without them several heads are numbered from 0 and a single one has none.

    Raises:
        DataError: if a number does not fit.
    """
    if weights.ndim not in (2, 3) or weights.shape[-2:] != (len(target), len(source)):
        raise DataError(
            f"weights of shape {weights.shape}: expected target x source, {len(target)} x {len(source)}, "
            "or one such map a head"
        )
    heads = weights[None] if weights.ndim == 2 else weights  # (H, T, S)
    if captions is None:
        captions = [f"head {head}" for head in range(len(heads))] if len(heads) > 1 else [""] * len(heads)
    if len(captions) != len(heads):
        raise DataError(f"{len(captions)} captions for {len(heads)} heads")
    return Grid(
        weights=heads.astype(np.float64),
        source=tuple(map(printable, source)),
        target=tuple(map(printable, target)),
        captions=tuple(map(printable, captions)),
    )


def printable(text: str) -> str:
    """The text with a visible stand-in for each character that would break a picture."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def clip_label(label: str, cells: int) -> str:
    """The label cut to a number of terminal cells, its end replaced by `…` where it was longer."""
    if cell_len(label) <= cells:
        return label
    return set_cell_size(label, max(cells - 1, 0)).rstrip() + "…"
