"""The result of translating or scoring a text: translation, scores and attention, as NumPy arrays."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Int

from regard.errors import UsageError
from regard.generation.config import AlignmentConfig
from regard.generation.linking import WordIndices, attention_links, attention_map
from regard.metrics.alignment import AttentionMap, map_difference, merge_subwords
from regard.plotting.attention import heatmap_figure, plot_heatmap
from regard.plotting.figure import Figure
from regard.plotting.heatmap import HeatMap, attention_heatmap, difference_heatmap

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["AttentionKind", "TranslationResult"]

AttentionKind = Literal["source", "encoder", "decoder"]
"""Kind of attention: from target to source, self-attention of the encoder, or of the decoder."""
_EOS = "</s>"
_BOS = "<s>"


@dataclass(frozen=True, eq=False)
class TranslationResult:
    """A translation of a text, generated or given. Scores are natural logarithms.

    Attributes:
        source: The source text.
        text: The translation. Empty if the source text is empty or rejected.
        source_tokens: S source tokens, including `<sink>` if the model has one.
        tokens: T target tokens. An end symbol follows them.
        source_words: Words of the source text, with subword tokens joined.
        target_words: Words of the translation.
        score: Score that search ranks by. NaN if there is no translation.
        log_probability: log p(tokens, end symbol | source).
        token_log_probs: [T + 1], log-probability of each token and, last, of the end symbol.
        attention: Weights [T + 1, H, S] of each attention layer, for all heads and all time steps including
            that of the end symbol.
        posteriors: Posterior attention in the same form, after each token is known. Empty if it equals
            `attention`. With hard attention, it is the probability of each selection.
        source_word_ids: Word index of each source token, counted from 0; -1 for the sink, -2 for a symbol
            that the tokenizer adds to the text.
        target_word_ids: Word index of each token of `tokens`.
        alignment_config: Layer, heads and shift of the attention used for `attention_map` and `alignment`.
        encoder_attention: Self-attention [H, S, S] of each encoder layer of a Transformer, if requested: from
            token i to token j.
        decoder_attention: Self-attention [H, T + 1, T + 1] of each decoder layer. Each step attends to the
            start symbol and the previous tokens.
        error: Why the text was not translated, or None.
        missing_terms: Required terms that this or another translation of the n-best list does not contain.
        retokenized: For a scored result: whether tokenizing its text gives other tokens.
        nbest: All requested translations, best first, including this one. Only set on the best translation.
    """

    source: str
    text: str = ""
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    source_words: tuple[str, ...] = ()
    target_words: tuple[str, ...] = ()
    score: float = float("nan")
    log_probability: float = float("nan")
    token_log_probs: Float[np.ndarray, "N"] = field(default_factory=lambda: np.zeros(0))
    attention: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    posteriors: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    source_word_ids: tuple[int, ...] = ()
    target_word_ids: tuple[int, ...] = ()
    alignment_config: AlignmentConfig = field(default_factory=AlignmentConfig)
    encoder_attention: tuple[Float[np.ndarray, "_ S S"], ...] = ()
    decoder_attention: tuple[Float[np.ndarray, "_ N N"], ...] = ()
    error: str | None = None
    missing_terms: tuple[str, ...] = ()
    retokenized: bool = False
    nbest: tuple["TranslationResult", ...] = ()

    @property
    def posterior_attention(self) -> tuple[Float[np.ndarray, "N _ S"], ...]:
        """Return the posterior attention of all layers: `posteriors`, or `attention` if they are equal."""
        return self.posteriors or self.attention

    @cached_property
    def attention_map(self) -> Float[np.ndarray, "T S"]:
        """Return the attention map used for `alignment`, without the end symbol; see `alignment_config`."""
        if not self.attention:
            return np.zeros((len(self.tokens), len(self.source_tokens)), dtype=np.float32)
        return attention_map(self.posterior_attention, self.alignment_config)

    @cached_property
    def word_attention(self) -> Float[np.ndarray, "V W"]:
        """Return the attention between words: sums over source tokens, means over target tokens."""
        return merge_subwords(self.attention_map, self.source_word_ids, self.target_word_ids).astype(
            np.float32
        )

    @cached_property
    def word_attention_map(self) -> AttentionMap:
        """Return the attention between words with their labels, and a column for the sink if there is one."""
        ids = self.source_word_ids, self.target_word_ids
        return AttentionMap.of_tokens(self.attention_map, self.source_words, self.target_words, *ids)

    def difference(self, other: "TranslationResult") -> AttentionMap:
        """Return this attention map minus another one of the same words.

        Args:
            other: The same translation by another model. A sink that only one of them has counts as 0.

        Raises:
            DataError: if the words differ; names the first difference.
        """
        return map_difference(self.word_attention_map, other.word_attention_map, ("this one", "the other"))

    def plot_difference(
        self,
        other: "TranslationResult",
        names: tuple[str, str] = ("this one", "the other"),
        ax: "matplotlib.axes.Axes | None" = None,
    ) -> Figure:
        """Plot `difference`: red where this model has more attention, blue where the other has more.

        Args:
            other: The same translation by another model.
            names: Names of the two models.
            ax: Matplotlib axes to plot on as well.

        Raises:
            DataError: if the words differ, or the names are equal.
        """
        found = map_difference(self.word_attention_map, other.word_attention_map, names)
        return _figure(difference_heatmap(found.weights, found.columns, found.target, names), ax)

    @cached_property
    def alignment(self) -> Int[np.ndarray, "L 2"]:
        """Return for each target word the source word with the highest attention, as rows (source, target).

        Words are counted from 0. A word whose highest attention is on the sink is not linked; see
        `regard.generation.linking`.
        """
        words = WordIndices(self.source_word_ids, self.target_word_ids)
        links = attention_links(self.attention, self.posterior_attention, self.alignment_config, words)
        return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)

    def plot(
        self,
        words: bool = False,
        layer: int | None = None,
        head: int | Literal["mean", "all"] | None = None,
        kind: AttentionKind = "source",
        title: str | None = None,
        ax: "matplotlib.axes.Axes | None" = None,
    ) -> Figure:
        """Plot an attention map. Weights of exactly 0 are white, and no others are.

        Args:
            words: Whether to join subword tokens, for attention to the source.
            layer: Index of the layer, counted from 0; -1 is the last. Default: that of `alignment_config`, or
                the last for self-attention.
            head: Index of the head, counted from 0; `mean` for their mean, or `all` for all heads next to
                each other. Default: the mean of the heads of `alignment_config`, or of all heads if another
                layer is chosen.
            kind: Kind of attention. `encoder` and `decoder` need a translation made with
                `output_attentions="all"`.
            title: Title above the plot.
            ax: Matplotlib axes to plot on as well, for a single map.

        Returns:
            A picture, which notebooks display and `save` writes to a file.

        Raises:
            UsageError: if there is no such layer or head, or no attention, or `ax` is given for all heads.
        """
        if ax is not None and head == "all":
            raise UsageError("head='all' plots several maps, but ax= has space for one: select a head")
        if kind not in ("source", "encoder", "decoder"):
            raise UsageError(f"kind={kind!r}: expected 'source', 'encoder' or 'decoder'")
        if self.error is not None or not self.attention:
            raise UsageError(f"there is no attention to plot: {self.error or 'the text is empty'}")
        if words and kind != "source":
            raise UsageError("words=True is supported only for kind='source'")
        rows, columns, layers = self._labeled_attention(kind)
        if not layers:
            raise UsageError(
                f"kind={kind!r}: the result has no such attention; translate with output_attentions='all' "
                "and a single Transformer model"
            )
        config = self.alignment_config if kind == "source" else AlignmentConfig()
        index = layer if layer is not None else -1 if config.layer is None else config.layer
        if not -len(layers) <= index < len(layers):
            raise UsageError(f"layer={index}: there are {len(layers)} layers, counted from 0; -1 is the last")
        maps = layers[index]  # (H, rows, columns)
        if isinstance(head, str) and head not in ("mean", "all"):
            raise UsageError(f"head={head!r}: expected a number, 'mean' or 'all'")
        heads = (head,) if isinstance(head, int) else config.heads if head is None and layer is None else ()
        for number in heads:
            if not -len(maps) <= number < len(maps):
                raise UsageError(
                    f"head={number}: there are {len(maps)} heads, counted from 0; -1 is the last"
                )
        captions = [f"head {number}" for number in range(len(maps))] if head == "all" else [""]
        # Without selected heads, all heads are averaged or shown.
        selected = maps[list(heads)] if heads else maps
        plotted = selected if head == "all" else selected.mean(axis=0)[None]
        if words:
            ids = self.source_word_ids, self.target_word_ids
            plotted = np.stack([merge_subwords(weights, *ids) for weights in plotted])
            rows, columns = self.target_words, self.source_words
        return _figure(attention_heatmap(plotted, columns, rows, title, captions), ax)

    def _labeled_attention(
        self, kind: AttentionKind
    ) -> tuple[tuple[str, ...], tuple[str, ...], list[np.ndarray]]:
        """Return the labels of rows and columns, and the attention of each layer as [H, rows, columns]."""
        if kind == "encoder":
            return self.source_tokens, self.source_tokens, list(self.encoder_attention)
        if kind == "decoder":
            return (*self.tokens, _EOS), (_BOS, *self.tokens), list(self.decoder_attention)
        first = int(self.alignment_config.shift)
        steps = slice(first, first + len(self.tokens))
        layers = [layer[steps].transpose(1, 0, 2) for layer in self.posterior_attention]
        return self.tokens, self.source_tokens, layers

    def __repr__(self) -> str:
        """Return the text and its score."""
        why = f", error={self.error!r}" if self.error else f", score={self.score:.4f}"
        return f"TranslationResult({self.text!r}{why})"

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def _figure(heat: HeatMap, ax: "matplotlib.axes.Axes | None") -> Figure:
    """Return the figure of a heat map, and plot it on matplotlib axes if they are given."""
    if ax is not None:
        plot_heatmap(ax, heat)
    return heatmap_figure(heat)
