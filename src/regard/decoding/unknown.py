"""Unknown words replaced through the attention: a name the model cannot say is copied from the source.

Luong et al. (2015), Section 4, after Jean et al. (2015): the source word attended to most at the step that
said the unknown word takes its place.
"""

from collections.abc import Sequence

import numpy as np

from regard.data.text import TextPair
from regard.metrics.alignment import links_from_weights
from regard.types import Float

__all__ = ["map_weights", "replace_unknown"]


def map_weights(attention: Sequence[Float[np.ndarray, "T H S"]]) -> Float[np.ndarray, "T S"]:
    """One map of all attention: the last attending layer, the mean of its heads."""
    return attention[-1].mean(axis=1)


def replace_unknown(
    unknown: Sequence[bool],
    tokens: Sequence[str],
    weights: Float[np.ndarray, "T S"],
    source_tokens: Sequence[str],
    text: TextPair,
) -> list[str]:
    """The tokens of a translation, source words standing for its unknown words.

    Args:
        unknown: Which tokens to replace; one that attends to nothing stays.
        tokens: The translation.
        weights: Attention of each token (and of the end symbol) to the source tokens.
        source_tokens: The source tokens.
        text: How both sides are written.
    """
    own = text.source.word_ids(source_tokens)
    words = [*own, *[-1] * len(text.sink)]
    written: list[str] = []
    for step, (token, replaced) in enumerate(zip(tokens, unknown, strict=True)):
        links = links_from_weights(weights[step : step + 1], words, [0]) if replaced else frozenset()
        if not links:
            written.append(token)
            continue
        ((word, _),) = links
        pieces = [piece for piece, number in zip(source_tokens, own, strict=True) if number == word]
        # In the target side's own pieces, so that they join and detokenise with what stands around them.
        written += text.target.tokenizer.encode(text.source.tokenizer.decode(pieces))
    return written
