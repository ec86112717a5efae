"""Attention maps of words as the HTML report stores them: 8 bits per weight, compressed in chunks.

A weight is stored as its square root, so that small weights differ: the smallest is 1/255², about 0.000015.
The error is at most 1/255. A weight of exactly 0 stays 0, and any other weight becomes at least 1 of 255. A
word without attention can thus be distinguished from a word with very little attention.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from regard.metrics.alignment import AttentionMap

__all__ = [
    "AttentionLayers",
    "MapKind",
    "MapPacker",
    "WordMaps",
    "drop_equal_priors",
    "quantize",
    "word_maps",
]

_CHUNK = 1 << 18  # bytes of maps compressed together; the page decompresses one chunk to show a sentence


@dataclass(frozen=True)
class MapKind:
    """The layer, head and distribution that a map shows.

    Attributes:
        layer: Index among the layers with attention, counted from 0; None for the map of the word links.
        head: Index of the head, counted from 0; None in a layer with a single head.
        prior: Whether the map shows the prior attention, before the target token is observed.
    """

    layer: int | None = None
    head: int | None = None
    prior: bool = False


@dataclass(frozen=True)
class WordMaps:
    """The attention of one translation from V target words to W source words.

    Attributes:
        rows: The target words.
        columns: The source words, followed by `<sink>` for a model with a sink.
        weights: One map of each kind, as returned by `quantize`.
        kinds: The kind of each map.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: UInt8[np.ndarray, "M V W"]
    kinds: tuple[MapKind, ...]


class AttentionLayers(NamedTuple):
    """The attention of a translation, without the row of the end symbol.

    Attributes:
        map: The attention map from which word links are computed.
        layers: All heads of each layer with attention; empty if only `map` is kept.
    """

    map: Float[np.ndarray, "T S"]
    layers: Sequence[Float[np.ndarray, "T _ S"]] = ()


def quantize(weights: Float[np.ndarray, "*N"]) -> UInt8[np.ndarray, "*N"]:
    """Quantize weights between 0 and 1 to 8 bits; only a weight of exactly 0 becomes 0."""
    levels = np.rint(np.sqrt(np.clip(weights, 0.0, 1.0)) * 255)
    return np.where(weights > 0, np.maximum(levels, 1), 0).astype(np.uint8)


def word_maps(
    rows: Sequence[str],
    columns: Sequence[str],
    posterior: AttentionLayers,
    source_words: Sequence[int],
    target_words: Sequence[int],
    prior: AttentionLayers | None = None,
) -> WordMaps:
    """Return the maps of one translation; the first is the one from which word links are computed.

    Args:
        rows: The target words.
        columns: The source words, without the sink.
        posterior: The posterior attention, after the target token is observed.
        source_words: Index of the word of each source token, counted from 0; -1 for the sink.
        target_words: Index of the word of each target token.
        prior: The prior attention, before the token is observed. None to omit it.
    """
    kinds: list[MapKind] = []
    maps: list[AttentionMap] = []

    def add(weights: Float[np.ndarray, "T S"], kind: MapKind) -> None:
        maps.append(AttentionMap.of_tokens(weights, columns, rows, source_words, target_words))
        kinds.append(kind)

    for is_prior, attention in ((False, posterior), (True, prior)):
        if attention is None:
            continue
        add(attention.map, MapKind(prior=is_prior))
        if sum(weights.shape[1] for weights in attention.layers) == 1:
            continue  # a single head: its map has been added already
        for layer, weights in enumerate(attention.layers):
            heads = weights.shape[1]
            for head in range(heads):
                add(weights[:, head], MapKind(layer, None if heads == 1 else head, is_prior))
    weights = np.stack([quantize(attention_map.weights) for attention_map in maps])
    return WordMaps(tuple(rows), maps[-1].columns, weights, tuple(kinds))


def drop_equal_priors(maps: Iterable[WordMaps | None]) -> list[WordMaps | None]:
    """Remove the prior maps of a text if they are equal to the posterior maps in all sentences."""
    all_maps = list(maps)
    for sentence_maps in all_maps:
        if sentence_maps is not None and any(kind.prior for kind in sentence_maps.kinds):
            # The posterior maps come first, the prior maps second, in the same order.
            posterior, prior = np.split(sentence_maps.weights, 2)
            if (posterior != prior).any():
                return all_maps
    return [sentence_maps and _without_prior(sentence_maps) for sentence_maps in all_maps]


def _without_prior(maps: WordMaps) -> WordMaps:
    kinds = tuple(kind for kind in maps.kinds if not kind.prior)
    return replace(maps, weights=maps.weights[: len(kinds)], kinds=kinds)


class MapPacker:
    """Concatenates maps into chunks of bytes, each compressed with zlib and encoded in base64."""

    def __init__(self) -> None:
        """Start without a chunk."""
        self._chunks: list[bytearray] = []

    def add(self, maps: WordMaps) -> tuple[int, int]:
        """Append the maps of a translation: map after map, row after row.

        Returns:
            The index of their chunk, and their offset in the decompressed chunk in bytes.
        """
        content = maps.weights.tobytes()
        # A map that is larger than a chunk gets a chunk of its own.
        if not self._chunks or (self._chunks[-1] and len(self._chunks[-1]) + len(content) > _CHUNK):
            self._chunks.append(bytearray())
        chunk = self._chunks[-1]
        place = len(self._chunks) - 1, len(chunk)
        chunk += content
        return place

    def chunks(self) -> list[str]:
        """Return all chunks, encoded."""
        return [base64.b64encode(zlib.compress(chunk, 9)).decode("ascii") for chunk in self._chunks]
