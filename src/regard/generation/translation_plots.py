"""Plots of the attention of a translation."""

from typing import Any, Literal

import numpy as np

from regard.config import from_dict
from regard.errors import UsageError
from regard.generation.config import AlignmentConfig
from regard.generation.linking import AttentionKind, select_heads
from regard.metrics.alignment import merge_subwords
from regard.plot.figure import Figure
from regard.plot.heatmap import attention_heatmap

__all__ = ["plot_translation"]

_BOS, _EOS = "<s>", "</s>"


def plot_translation(
    translation: Any,
    words: bool,
    layer: int | None,
    head: int | Literal["mean", "all"] | None,
    kind: AttentionKind,
    title: str | None,
) -> Figure:
    """Plot the attention of a `Translation`, whose module imports this one; see `Translation.plot`."""
    if kind not in ("source", "encoder", "decoder"):
        raise UsageError(f"kind={kind!r}: expected 'source', 'encoder' or 'decoder'")
    if translation.error is not None or not translation.attention:
        raise UsageError(f"there is no attention to plot: {translation.error or 'the text is empty'}")
    if words and kind != "source":
        raise UsageError("words=True is supported only for kind='source'")
    if isinstance(head, str) and head not in ("mean", "all"):
        raise UsageError(f"head={head!r}: expected a number, 'mean' or 'all'")
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
    return attention_heatmap(plotted, columns, rows, title, captions).figure()


def _labeled_attention(
    translation: Any, kind: AttentionKind
) -> tuple[tuple[str, ...], tuple[str, ...], list[np.ndarray]]:
    """Return the labels of rows and columns, and the attention of each layer as [rows, H, columns]."""
    if kind == "source":
        first = int(translation.alignment_config.shift)
        # With `shift`, the links of a token come from the next time step.
        steps = slice(first, first + len(translation.tokens))
        return (
            translation.tokens,
            translation.source_tokens,
            [layer[steps] for layer in translation.posterior_attention],
        )
    layers = translation.encoder_attention if kind == "encoder" else translation.decoder_attention
    if not layers:
        raise UsageError(
            f"kind={kind!r}: the result has no such attention; translate with output_attentions='all' "
            "and a single Transformer model"
        )
    by_row = [layer.transpose(1, 0, 2) for layer in layers]
    if kind == "encoder":
        return translation.source_tokens, translation.source_tokens, by_row
    # The step that generates a token attends to the tokens before it, so the labels are shifted by one.
    return (*translation.tokens, _EOS), (_BOS, *translation.tokens), by_row
