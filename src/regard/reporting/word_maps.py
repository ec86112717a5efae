"""Attention maps of words as the HTML report stores them: 8 bits per weight, compressed in chunks.

A weight is stored as its square root, so that small weights differ: the smallest is 1/255², about 0.000015.
The error is at most 1/255. A weight of exactly 0 stays 0, and any other weight becomes at least 1 of 255. A
word without attention can thus be distinguished from a word with very little attention.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, UInt8

from regard.metrics.alignment import AttentionMap

_CHUNK = 1 << 18  # bytes of maps compressed together; the page decompresses one chunk to show a sentence


@dataclass(frozen=True)
class WordMap:
    """The attention of one translation from V target words to W source words.

    Attributes:
        rows: The target words.
        columns: The source words, followed by `<sink>` for a model with a sink.
        weights: The weights, as returned by `quantize`.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: UInt8[np.ndarray, "V W"]


def quantize(weights: Float[np.ndarray, "*N"]) -> UInt8[np.ndarray, "*N"]:
    """Quantize weights between 0 and 1 to 8 bits; only a weight of exactly 0 becomes 0."""
    levels = np.rint(np.sqrt(np.clip(weights, 0.0, 1.0)) * 255)
    return np.where(weights > 0, np.maximum(levels, 1), 0).astype(np.uint8)


def word_map(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> WordMap:
    """Return the map of one translation, from the attention without the row of the end symbol.

    `rows` and `columns` are the words, without the sink, `source_words` and `target_words` the index of the
    word of each token, -1 for the sink.
    """
    attention_map = AttentionMap.of_tokens(weights, columns, rows, source_words, target_words)
    return WordMap(tuple(rows), attention_map.columns, quantize(attention_map.weights))


@dataclass
class MapPacker:
    """Concatenates maps into chunks of bytes, each compressed with zlib and encoded in base64."""

    _chunks: list[bytearray] = field(default_factory=list)

    def add(self, word_map: WordMap) -> tuple[int, int]:
        """Append the map of a translation, row after row.

        Returns:
            The index of their chunk, and their offset in the decompressed chunk in bytes.
        """
        content = word_map.weights.tobytes()
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
