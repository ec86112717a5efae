"""The result of translating or scoring a text: translation, scores and attention, as NumPy arrays."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from regard.decoding.config import AlignmentConfig
from regard.decoding.linking import TokenWords, attention_links, attention_map
from regard.errors import UsageError
from regard.metrics.alignment import join_words
from regard.metrics.maps import AttentionMap, map_difference
from regard.report.difference import svg_difference
from regard.report.heatmap import svg_map
from regard.report.picture import Picture

__all__ = ["Attended", "TranslationResult"]

Attended = Literal["source", "encoder", "decoder"]
"""Kind of attention: from target to source, self-attention of the encoder, or of the decoder."""
_END = "</s>"
_START = "<s>"


@dataclass(frozen=True, eq=False)
class TranslationResult:
    """A translation of a text, generated or given. Scores are natural logarithms.

    Attributes:
        source: The source text.
        text: The translation. Empty if the source text is empty or rejected.
        source_tokens: S source tokens, including `<sink>` if the model has one.
        tokens: T target tokens. An end symbol follows them.
        source_words: Words of the source text, with subword tokens joined.
        words: Words of the translation.
        score: Score that search ranks by. NaN if there is no translation.
        log_probability: log p(tokens, end symbol | source).
        token_log_probs: [T + 1], log-probability of each token and, last, of the end symbol.
        attention: Weights [T + 1, H, S] of each attention layer, for all heads and all time steps including
            that of the end symbol.
        beliefs: Posterior attention in the same form, after each token is known. Empty if it equals
            `attention`. With hard attention, it is the probability of each selection.
        source_word_ids: Word index of each source token, counted from 0; -1 for the sink, -2 for a symbol
            that the tokenizer adds to the text.
        word_ids: Word index of each token of `tokens`.
        aligned_by: Layer, heads and shift of the attention used for `weights` and `alignment`.
        encoder: Self-attention [H, S, S] of each encoder layer of a Transformer, if requested: from token i
            to token j.
        decoder: Self-attention [H, T + 1, T + 1] of each decoder layer. Each step attends to the start symbol
            and the previous tokens.
        refused: Why the text was not translated, or None.
        lacking: Required terms that this or another translation of the n-best list does not contain.
        resegmented: For a scored result: whether tokenizing its text gives other tokens.
        nbest: All requested translations, best first, including this one. Only set on the best translation.
    """

    source: str
    text: str = ""
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    source_words: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    score: float = float("nan")
    log_probability: float = float("nan")
    token_log_probs: Float[np.ndarray, "N"] = field(default_factory=lambda: np.zeros(0))
    attention: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    beliefs: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    source_word_ids: tuple[int, ...] = ()
    word_ids: tuple[int, ...] = ()
    aligned_by: AlignmentConfig = field(default_factory=AlignmentConfig)
    encoder: tuple[Float[np.ndarray, "_ S S"], ...] = ()
    decoder: tuple[Float[np.ndarray, "_ N N"], ...] = ()
    refused: str | None = None
    lacking: tuple[str, ...] = ()
    resegmented: bool = False
    nbest: tuple["TranslationResult", ...] = ()

    @property
    def posterior(self) -> tuple[Float[np.ndarray, "N _ S"], ...]:
        """Return the posterior attention of all layers: `beliefs`, or `attention` if they are equal."""
        return self.beliefs or self.attention

    @cached_property
    def weights(self) -> Float[np.ndarray, "T S"]:
        """Return the attention map used for `alignment`, without the end symbol; see `aligned_by`."""
        if not self.attention:
            return np.zeros((len(self.tokens), len(self.source_tokens)), dtype=np.float32)
        return attention_map(self.posterior, self.aligned_by)

    @cached_property
    def word_weights(self) -> Float[np.ndarray, "V W"]:
        """Return the map between words: summed over source subword tokens, averaged over target ones."""
        return join_words(self.weights, self.source_word_ids, self.word_ids).astype(np.float32)

    @cached_property
    def word_map(self) -> AttentionMap:
        """Return the map between words with its labels, and a column for the sink if the model has one."""
        ids = self.source_word_ids, self.word_ids
        return AttentionMap.of_tokens(self.weights, self.source_words, self.words, *ids)

    def difference(self, other: "TranslationResult") -> AttentionMap:
        """Return this attention map minus another one of the same words.

        Args:
            other: The same translation by another model. A sink that only one of them has counts as 0.

        Raises:
            DataError: if the words differ; names the first difference.
        """
        return map_difference(self.word_map, other.word_map, ("this one", "the other"))

    def plot_difference(
        self, other: "TranslationResult", names: tuple[str, str] = ("this one", "the other")
    ) -> Picture:
        """Plot `difference`: red where this model has more attention, blue where the other has more.

        Args:
            other: The same translation by another model.
            names: Names of the two models.

        Raises:
            DataError: if the words differ, or the names are equal.
        """
        apart = map_difference(self.word_map, other.word_map, names)
        return Picture(svg_difference(apart.weights, apart.columns, apart.target, names))

    @cached_property
    def alignment(self) -> Int[np.ndarray, "L 2"]:
        """Return for each target word the source word with the highest attention, as rows (source, target).

        Words are counted from 0. A word whose highest attention is on the sink is not linked; see
        `regard.decoding.linking`.
        """
        words = TokenWords(self.source_word_ids, self.word_ids)
        links = attention_links(self.attention, self.posterior, self.aligned_by, words)
        return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)

    def plot(
        self,
        words: bool = False,
        layer: int | None = None,
        head: int | Literal["mean", "all"] | None = None,
        of: Attended = "source",
        title: str | None = None,
    ) -> Picture:
        """Plot an attention map. Weights of exactly 0 are white, and no others are.

        Args:
            words: Whether to join subword tokens, for attention to the source.
            layer: Index of the layer, counted from 0; -1 is the last. Default: that of `aligned_by`, or the
                last for self-attention.
            head: Index of the head, counted from 0; `mean` for their mean, or `all` for all heads next to
                each other. Default: the mean of the heads of `aligned_by`, or of all heads if another layer
                is chosen.
            of: Kind of attention. `encoder` and `decoder` need a translation made with `look="all"`.
            title: Title above the plot.

        Returns:
            A picture, which notebooks display and `save` writes to a file.

        Raises:
            UsageError: if there is no such layer or head, or no attention.
        """
        if of not in ("source", "encoder", "decoder"):
            raise UsageError(f"of={of!r}: expected 'source', 'encoder' or 'decoder'")
        if self.refused is not None or not self.attention:
            raise UsageError(f"there is no attention to plot: {self.refused or 'the text is empty'}")
        if words and of != "source":
            raise UsageError("words=True is supported only for of='source'")
        rows, columns, layers = self._seen(of)
        if not layers:
            raise UsageError(
                f"of={of!r}: the result has no such attention; translate with look='all' and a single "
                "Transformer model"
            )
        own = self.aligned_by if of == "source" else AlignmentConfig()
        place = layer if layer is not None else -1 if own.layer is None else own.layer
        if not -len(layers) <= place < len(layers):
            raise UsageError(f"layer={place}: there are {len(layers)} layers, counted from 0; -1 is the last")
        maps = layers[place]  # (H, rows, columns)
        if isinstance(head, str) and head not in ("mean", "all"):
            raise UsageError(f"head={head!r}: expected a number, 'mean' or 'all'")
        heads = (head,) if isinstance(head, int) else own.heads if head is None and layer is None else ()
        for number in heads:
            if not -len(maps) <= number < len(maps):
                raise UsageError(
                    f"head={number}: there are {len(maps)} heads, counted from 0; -1 is the last"
                )
        captions = [f"head {number}" for number in range(len(maps))] if head == "all" else None
        # Without selected heads, all heads are averaged or shown.
        some = maps[list(heads)] if heads else maps
        chosen = some if head == "all" else some.mean(axis=0)[None]
        if words:
            chosen = np.stack([join_words(map, self.source_word_ids, self.word_ids) for map in chosen])
            rows, columns = self.words, self.source_words
        return Picture(svg_map(chosen if head == "all" else chosen[0], columns, rows, title, captions))

    def _seen(self, of: Attended) -> tuple[tuple[str, ...], tuple[str, ...], list[np.ndarray]]:
        """Return the labels of rows and columns, and the attention of each layer as [H, rows, columns]."""
        if of == "encoder":
            return self.source_tokens, self.source_tokens, list(self.encoder)
        if of == "decoder":
            return (*self.tokens, _END), (_START, *self.tokens), list(self.decoder)
        first = int(self.aligned_by.shift)
        steps = slice(first, first + len(self.tokens))
        layers = [layer[steps].transpose(1, 0, 2) for layer in self.posterior]
        return self.tokens, self.source_tokens, layers

    def __repr__(self) -> str:
        """Return the text and its score."""
        why = f", refused={self.refused!r}" if self.refused else f", score={self.score:.4f}"
        return f"TranslationResult({self.text!r}{why})"

    def __str__(self) -> str:
        """Return the text."""
        return self.text
