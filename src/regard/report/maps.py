"""Attention maps as a page carries them: words to words, 8 bits a weight, deflated in chunks.

A weight of exactly 0 stays 0 and any other one is at least 1 of 255, so that what was not looked at can be
told from what was hardly looked at.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from regard.metrics.maps import AttentionMap

__all__ = ["MapKind", "MapPacker", "Seen", "WordMaps", "drop_equal_priors", "quantise", "word_maps"]

_CHUNK = 1 << 18  # bytes of maps that are deflated together: what the page inflates to show one sentence


@dataclass(frozen=True)
class MapKind:
    """Which attention a map shows.

    Attributes:
        layer: Of the attending layers, from 0; none: the map that word links come from.
        head: From 0; none: the only one there is.
        prior: Whether as it was before the token was known.
    """

    layer: int | None = None
    head: int | None = None
    prior: bool = False


@dataclass(frozen=True)
class WordMaps:
    """The attention of one translation, V target words to W source words.

    Attributes:
        rows: The target words.
        columns: The source words; `<sink>` at the end for a model that reads one.
        weights: One map of each kind, 255 for all of a step's attention.
        kinds: What each map is.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: UInt8[np.ndarray, "M V W"]
    kinds: tuple[MapKind, ...]

    def chosen(self, kinds: Sequence[MapKind]) -> "WordMaps":
        """These maps alone."""
        places = [self.kinds.index(kind) for kind in kinds]
        return replace(self, weights=self.weights[places], kinds=tuple(kinds))


class Seen(NamedTuple):
    """The attention of a translation, the end symbol's row left out.

    Attributes:
        map: The attention map that word links come from.
        layers: For each attending layer all heads, where every one is to be kept; else none.
    """

    map: Float[np.ndarray, "T S"]
    layers: Sequence[Float[np.ndarray, "T _ S"]] = ()


def quantise(weights: Float[np.ndarray, "*N"]) -> UInt8[np.ndarray, "*N"]:
    """Weights from 0 to 1 in 8 bits; 0 alone becomes 0."""
    levels = np.rint(np.clip(weights, 0.0, 1.0) * 255)
    return np.where(weights > 0, np.maximum(levels, 1), 0).astype(np.uint8)


def word_maps(
    rows: Sequence[str],
    columns: Sequence[str],
    posterior: Seen,
    source_words: Sequence[int],
    target_words: Sequence[int],
    prior: Seen | None = None,
) -> WordMaps:
    """The maps of one translation, first the one that word links come from.

    Args:
        rows: The target words.
        columns: The source words, without the sink.
        posterior: The attention once tokens were known.
        source_words: The word that each source token is part of, counted from 0; -1 for the sink.
        target_words: The same of the T target tokens.
        prior: The attention before they were known, where that is to be kept too.
    """
    kinds: list[MapKind] = []
    found: list[AttentionMap] = []

    def add(weights: Float[np.ndarray, "T S"], kind: MapKind) -> None:
        found.append(AttentionMap.of_tokens(weights, columns, rows, source_words, target_words))
        kinds.append(kind)

    for before, seen in ((False, posterior), (True, prior)):
        if seen is None:
            continue
        add(seen.map, MapKind(prior=before))
        if sum(weights.shape[1] for weights in seen.layers) == 1:
            continue  # the map is all there is
        for layer, weights in enumerate(seen.layers):
            heads = weights.shape[1]
            for head in range(heads):
                add(weights[:, head], MapKind(layer, None if heads == 1 else head, before))
    weights = np.stack([quantise(one.weights) for one in found])
    return WordMaps(tuple(rows), found[-1].columns, weights, tuple(kinds))


def drop_equal_priors(maps: Iterable[WordMaps | None]) -> list[WordMaps | None]:
    """A text's maps without those of before the token was known, where knowing it changed nothing."""
    given = list(maps)
    there = [one for one in given if one is not None]
    if not there or all(_is_unchanged(one) for one in there):
        return [
            None if one is None else one.chosen([kind for kind in one.kinds if not kind.prior])
            for one in given
        ]
    return given


def _is_unchanged(maps: WordMaps) -> bool:
    half = len(maps.kinds) // 2
    if not any(kind.prior for kind in maps.kinds):
        return True
    return bool((maps.weights[:half] == maps.weights[half:]).all())


class MapPacker:
    """Puts maps one behind the other into chunks of bytes, each deflated (zlib) and written in base64."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._done: list[str] = []
        self._open: list[bytes] = []
        self._filled = 0

    def add(self, maps: WordMaps) -> tuple[int, int]:
        """Take in a translation's maps.

        Returns:
            The chunk they are in, and where in it they begin; map after map, row after row.
        """
        content = maps.weights.tobytes()
        if self._open and self._filled + len(content) > _CHUNK:
            self._close()
        place = len(self._done), self._filled
        self._open.append(content)
        self._filled += len(content)
        return place

    def chunks(self) -> list[str]:
        """All chunks."""
        if self._open:
            self._close()
        return list(self._done)

    def _close(self) -> None:
        self._done.append(base64.b64encode(zlib.compress(b"".join(self._open), 9)).decode("ascii"))
        self._open, self._filled = [], 0
