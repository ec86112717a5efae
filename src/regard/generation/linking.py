"""The attention used for word links and plots. All commands and the Python API use this definition.

A model has attention in several layers and heads. `AlignmentConfig` selects a layer and some of its heads,
whose mean is the attention map of a translation. The map shows the posterior, which is the attention after
each token is known (`State.posteriors`). For soft attention the posterior equals the weights; for posterior
attention it is given by Bayes' rule; for hard attention it is the probability of each selection.

The row of token t is that of time step t, which generates the token. The row of the end symbol belongs to no
token.

Each target word is linked to the source word with the highest attention (`links_from_weights`) among the
source tokens whose prior weight is above 0. The posterior of other tokens is 0, or hard attention did not
select them. A target word whose highest attention is on the sink is not linked.

Through these links, unknown tokens are replaced by source words (Luong et al. (2015), Section 4, after Jean
et al. (2015)).
"""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.config import from_dict
from regard.data.text import TextProcessor, TextSide
from regard.errors import UsageError
from regard.generation.config import AlignmentConfig
from regard.metrics.alignment import links_from_weights, merge_subwords
from regard.text.links import Links
from regard.text.words import ASCII_WHITESPACE
from regard.types import Float

if TYPE_CHECKING:
    from regard.plot.figure import Figure

LayerAttention = Sequence[Float[np.ndarray, "T _ S"]]
"""Attention of each layer at all T time steps, the last of which is that of the end symbol."""
AttentionKind = Literal["source", "encoder", "decoder"]
"""Kind of attention: from target to source, self-attention of the encoder, or of the decoder."""


def select_heads(
    layers: LayerAttention, config: AlignmentConfig, name: str = "the model"
) -> Float[np.ndarray, "T H S"]:
    """Return the attention of the chosen layer and heads, of all time steps.

    Raises:
        UsageError: if the model has no attention, or no such layer or head; `name` is its name.
    """
    if not layers:
        raise UsageError(f"{name} has no attention to the source, so no links can be extracted")
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
    layers: LayerAttention, config: AlignmentConfig, name: str = "the model"
) -> Float[np.ndarray, "N S"]:
    """Return the attention map of a translation: one row for each of its N tokens, without the end symbol.

    Raises:
        UsageError: if the model has no attention, or no such layer or head; `name` is its name.
    """
    return select_heads(layers, config, name).mean(axis=1)[:-1]


def attention_links(
    priors: LayerAttention,
    posteriors: LayerAttention,
    config: AlignmentConfig,
    words: tuple[Sequence[int], Sequence[int]],
    name: str = "the model",
) -> Links:
    """Link each target word to the source word with the highest attention. Both are counted from 0.

    Args:
        priors: Attention before each token is known.
        posteriors: Attention after each token is known.
        config: Layer and heads.
        words: Word index of each source token (-1 for the sink, -2 for another added symbol), and of each
            target token without the end symbol.
        name: Name of the model, for messages.

    Raises:
        UsageError: if the model has no such layer or head.
    """
    if not posteriors:
        return frozenset()
    # With hard attention, tokens that were not selected have a posterior as well, but are not linked.
    possible = attention_map(priors, config, name) > 0
    weights = np.where(possible, attention_map(posteriors, config, name), 0.0)
    return links_from_weights(weights, *words)


def replace_unk_tokens(
    unknown: Sequence[bool],
    tokens: Sequence[str],
    links: Links,
    source_tokens: Sequence[str],
    text: TextProcessor,
) -> list[str]:
    """Return the tokens of a translation with unknown tokens replaced by source words (Luong et al. 2015).

    `links` are those between source words and tokens. An unknown token without a link is kept.
    """
    word_ids = text.source.word_ids(source_tokens)
    words = {token: word for word, token in links}
    written: list[str] = []
    for position, (token, replaced) in enumerate(zip(tokens, unknown, strict=True)):
        word = words.get(position) if replaced else None
        if word is None:
            written.append(token)
            continue
        subwords = [
            subword for subword, number in zip(source_tokens, word_ids, strict=True) if number == word
        ]
        # Encode with the target tokenizer, so that the word detokenizes correctly in its context.
        written += text.target.tokenizer.encode(text.source.tokenizer.decode(subwords))
    return written


def tokens_to_words(side: TextSide, tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a sequence of tokens consists of."""
    groups = groupby(zip(side.word_ids(tokens), tokens, strict=True), key=lambda subword: subword[0])
    words = ([token for _, token in word] for _, word in groups)
    return tuple(side.tokenizer.decode(word).strip(ASCII_WHITESPACE) or "".join(word) for word in words)


def plot_translation(
    translation: Any,
    words: bool,
    layer: int | None,
    head: int | Literal["mean", "all"] | None,
    kind: AttentionKind,
) -> "Figure":
    """Plot the attention of a `Translation`, whose module imports this one; see `Translation.plot`."""
    from regard.plot.heatmap import attention_heatmap

    if kind not in ("source", "encoder", "decoder"):
        raise UsageError(f"kind={kind!r}: expected 'source', 'encoder' or 'decoder'")
    if isinstance(head, str) and head not in ("mean", "all"):
        raise UsageError(f"head={head!r}: expected a number, 'mean' or 'all'")
    if translation.error is not None or not translation.attention:
        raise UsageError(f"there is no attention to plot: {translation.error or 'the text is empty'}")
    if words and kind != "source":
        raise UsageError("words=True is supported only for kind='source'")
    rows, columns, layers = _labeled_attention(translation, kind)
    # The heads of the settings belong to the layer of the settings.
    config = translation.alignment_config if kind == "source" and layer is None else AlignmentConfig()
    changes = {} if layer is None else {"layer": layer}
    changes |= {} if head is None else {"heads": [head] if isinstance(head, int) else []}
    config = from_dict(AlignmentConfig, config.record() | changes, origin="plot")
    selected = select_heads(layers, config, "the translation")  # (rows, H, columns)
    plotted = selected.transpose(1, 0, 2) if head == "all" else selected.mean(axis=1)[None]
    captions = [f"head {number}" for number in range(len(plotted))] if head == "all" else [""]
    if words:
        ids = translation.source_word_ids, translation.target_word_ids
        plotted = np.stack([merge_subwords(weights, *ids) for weights in plotted])
        rows, columns = translation.target_words, translation.source_words
    return attention_heatmap(plotted, columns, rows, captions=captions).figure()


def _labeled_attention(
    translation: Any, kind: AttentionKind
) -> tuple[Sequence[str], Sequence[str], LayerAttention]:
    """Return the labels of rows and columns, and the attention of each layer as [rows, H, columns]."""
    tokens, source_tokens = translation.tokens, translation.source_tokens
    if kind == "source":
        return tokens, source_tokens, [layer[: len(tokens)] for layer in translation.posterior_attention]
    # The step that generates a token attends to the tokens before it, so the labels are shifted by one.
    rows, columns, layers = {
        "encoder": (source_tokens, source_tokens, translation.encoder_attention),
        "decoder": ((*tokens, "</s>"), ("<s>", *tokens), translation.decoder_attention),
    }[kind]
    if not layers:
        raise UsageError(
            f"kind={kind!r}: the result has no such attention; translate with output_attentions='all' "
            "and a single Transformer model"
        )
    return rows, columns, [layer.transpose(1, 0, 2) for layer in layers]
