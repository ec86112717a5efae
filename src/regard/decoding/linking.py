"""The attention that word links are made from: the one definition that all commands and the Python API use.

A model attends in several layers and heads. `AlignmentConfig` names a layer and some of its heads, whose mean
is the attention map of a translation. The map is of the posterior, the attention once each token is known
(`State.belief`): of soft attention the weights themselves, of posterior attention the weights corrected by
Bayes' rule, of hard attention the probability of each selection.

With `shift` the row of token t is that of time step t + 1, whose input is token t; without it that of step t,
which generated the token. The row of the end symbol belongs to no token.

Each target word is linked to the source word that it attends to most (`links_from_weights`), among the source
tokens whose prior weight is above 0: the posterior of the others is 0 too, or hard attention did not select
them. A target word that attends to the sink most is not linked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.links import Links
from regard.decoding.config import AlignmentConfig
from regard.errors import UsageError
from regard.metrics.alignment import is_selection, links_from_selection, links_from_weights
from regard.types import Float

__all__ = ["Layers", "TokenWords", "attention_links", "attention_map", "chosen_heads", "selection_links"]

Layers = Sequence[Float[np.ndarray, "T _ S"]]
"""For each attending layer the attention of all T time steps, the end symbol's the last."""


@dataclass(frozen=True)
class TokenWords:
    """Which word each token is part of, counted from 0.

    Attributes:
        source: Of the source tokens; -1 for the sink, -2 for a symbol around the line.
        target: Of the target tokens, without the end symbol.
    """

    source: Sequence[int]
    target: Sequence[int]


def chosen_heads(
    layers: Layers, config: AlignmentConfig, name: str = "the model"
) -> Float[np.ndarray, "T H S"]:
    """Return the attention of the chosen layer and heads, of all time steps.

    Args:
        layers: The attention of a translation.
        config: Which layer and heads.
        name: What to call the model in messages.

    Raises:
        UsageError: if the model has no such layer or head, or attends to nothing.
    """
    if not layers:
        raise UsageError(f"{name} attends to nothing: it has no attention to make links from")
    place = -1 if config.layer is None else config.layer
    if not -len(layers) <= place < len(layers):
        raise UsageError(
            f"layer {place}: {name} attends to the source in {len(layers)} layers, counted from 0; "
            "-1 is the last"
        )
    weights = layers[place]
    count = weights.shape[1]
    for head in config.heads:
        if not -count <= head < count:
            raise UsageError(
                f"head {head}: layer {place} of {name} has {count} heads, counted from 0; -1 is the last"
            )
    return weights[:, list(config.heads)] if config.heads else weights


def attention_map(
    layers: Layers, config: AlignmentConfig, name: str = "the model"
) -> Float[np.ndarray, "N S"]:
    """Return the one attention map of a translation: a row for each of its T tokens, the end symbol left out.

    Args:
        layers: The attention of a translation, T + 1 time steps.
        config: Which layer, heads and step.
        name: What to call the model in messages.

    Raises:
        UsageError: if the model has no such layer or head, or attends to nothing.
    """
    weights = chosen_heads(layers, config, name).mean(axis=1)
    return weights[1:] if config.shift else weights[:-1]


def attention_links(
    priors: Layers, posteriors: Layers, config: AlignmentConfig, words: TokenWords, name: str = "the model"
) -> Links:
    """Link each target word to the source word that it attends to most, both counted from 0.

    Args:
        priors: The attention before each token was known.
        posteriors: The same once it is known.
        config: Which layer, heads and step.
        words: The words of the tokens.
        name: What to call the model in messages.

    Raises:
        UsageError: if the model has no such layer or head.
    """
    if not posteriors:
        return frozenset()
    possible = attention_map(priors, config, name) > 0
    weights = np.where(possible, attention_map(posteriors, config, name), 0.0)
    return links_from_weights(weights, words.source, words.target)


def selection_links(
    priors: Layers, config: AlignmentConfig, words: TokenWords, name: str = "the model"
) -> Links | None:
    """Link each target word to every source word that hard attention selected for it.

    Args:
        priors: The attention before each token was known, a selection: 0 or 1 for each source token.
        config: Which layer, heads and step.
        words: The words of the tokens.
        name: What to call the model in messages.

    Returns:
        The links; none where the attention is no selection.

    Raises:
        UsageError: if the model has no such layer or head.
    """
    if not priors or not is_selection(chosen_heads(priors, config, name)):
        return None
    return links_from_selection(attention_map(priors, config, name), words.source, words.target)
