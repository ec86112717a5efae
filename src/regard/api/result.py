"""What a model made of a text: its translation, how sure it is, and where it looked, as NumPy arrays."""

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
"""Whose attention: the target's to the source, the source's to itself, the target's to itself."""
_END = "</s>"
_START = "<s>"


@dataclass(frozen=True, eq=False)
class TranslationResult:
    """A translation of a text, found or given. Scores are natural logarithms.

    Attributes:
        source: The text.
        text: Its translation; empty where the text is empty or refused.
        source_tokens: The S tokens that the model read, a `<sink>` included where it has one.
        tokens: The T tokens that it said; an end symbol follows them.
        source_words: The text's words, subwords joined.
        words: The translation's.
        score: What search ranks by; not a number where there is no translation.
        log_probability: log p(tokens, end symbol | source).
        token_log_probs: [T + 1], its parts, the end symbol's last.
        attention: For each attending layer [T + 1, H, S]: every step, the end symbol's last, and every head.
        beliefs: The posterior, the same once the tokens were known, where that is another (of hard attention
            the probability of each selection); else none.
        source_word_ids: The word that each source token is part of, counted from 0; -1 for the sink,
            -2 for a symbol that the tokenizer puts around the text.
        word_ids: The same of `tokens`.
        aligned_by: The layer, heads and step of the attention that `weights` and `alignment` come from.
        encoder: For each layer of a Transformer's encoder [H, S, S], where all was looked at: what token i
            gave to token j.
        decoder: The same of its decoder, [H, T + 1, T + 1]: a step sees the start symbol and the tokens
            before its own.
        refused: Why the text was not translated; none where it was.
        lacking: The terms asked for that the translation, or another of the n-best, does not hold.
        resegmented: Of a result that was scored, whether its text has other tokens when it is read again.
        nbest: All translations that were asked for, best first, this one among them; on the best one alone.
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
        """All attention once the tokens were known: `beliefs`, or `attention` where these are the same."""
        return self.beliefs or self.attention

    @cached_property
    def weights(self) -> Float[np.ndarray, "T S"]:
        """The attention map that `alignment` comes from, the end symbol left out; see `aligned_by`."""
        if not self.attention:
            return np.zeros((len(self.tokens), len(self.source_tokens)), dtype=np.float32)
        return attention_map(self.posterior, self.aligned_by)

    @cached_property
    def word_weights(self) -> Float[np.ndarray, "V W"]:
        """The same of words: the sum over a source word's pieces, the mean over a target word's."""
        return join_words(self.weights, self.source_word_ids, self.word_ids).astype(np.float32)

    @cached_property
    def word_map(self) -> AttentionMap:
        """The same with its words, and with the sink's column where the model has one."""
        ids = self.source_word_ids, self.word_ids
        return AttentionMap.of_tokens(self.weights, self.source_words, self.words, *ids)

    def difference(self, other: "TranslationResult") -> AttentionMap:
        """Where this model attended more than another to the same words (positive), and where less.

        Args:
            other: The same translation by another model; a sink that only one of them has counts as 0.

        Raises:
            DataError: if the two have other words; says which word is the first that differs.
        """
        return map_difference(self.word_map, other.word_map, ("this one", "the other"))

    def plot_difference(
        self, other: "TranslationResult", names: tuple[str, str] = ("this one", "the other")
    ) -> Picture:
        """Draw `difference`: red where this model attended more, blue where the other did.

        Args:
            other: The same translation by another model.
            names: What to call the two.

        Raises:
            DataError: if the two have other words, or the same name.
        """
        apart = map_difference(self.word_map, other.word_map, names)
        return Picture(svg_difference(apart.weights, apart.columns, apart.target, names))

    @cached_property
    def alignment(self) -> Int[np.ndarray, "L 2"]:
        """For each target word the source word it attended to most: rows of (source, target), from 0.

        A word that attended to the sink most has none; see `regard.decoding.linking`.
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
        """Draw where the model looked; exactly 0 is white, everything else is not.

        Args:
            words: Join subwords; for the attention to the source.
            layer: Which layer, from 0; -1 is the last. Default: that of `aligned_by`; of the attention to
                itself the last.
            head: Which head, from 0; their mean; or all, beside each other. Default: the mean of the heads of
                `aligned_by`; of all heads where another layer is chosen.
            of: Whose attention; `encoder` and `decoder` of what was translated with `look="all"`.
            title: A line above.

        Returns:
            A picture: a notebook shows it, `save` writes it.

        Raises:
            UsageError: if there is no such layer or head, or nothing to draw.
        """
        if of not in ("source", "encoder", "decoder"):
            raise UsageError(f"of={of!r}: expected 'source', 'encoder' or 'decoder'")
        if self.refused is not None or not self.attention:
            raise UsageError(f"there is no attention to draw: {self.refused or 'the text is empty'}")
        if words and of != "source":
            raise UsageError("words=True joins the subwords of the attention to the source alone")
        rows, columns, layers = self._seen(of)
        if not layers:
            raise UsageError(f"of={of!r}: not looked at: translate with look='all', with one Transformer")
        own = self.aligned_by if of == "source" else AlignmentConfig()
        place = layer if layer is not None else -1 if own.layer is None else own.layer
        if not -len(layers) <= place < len(layers):
            raise UsageError(f"layer={place}: there are {len(layers)}, from 0 on; -1 is the last")
        maps = layers[place]  # (H, rows, columns)
        if isinstance(head, str) and head not in ("mean", "all"):
            raise UsageError(f"head={head!r}: expected a number, 'mean' or 'all'")
        heads = (head,) if isinstance(head, int) else own.heads if head is None and layer is None else ()
        for number in heads:
            if not -len(maps) <= number < len(maps):
                raise UsageError(f"head={number}: there are {len(maps)}, from 0 on; -1 is the last")
        captions = [f"head {number}" for number in range(len(maps))] if head == "all" else None
        some = maps[list(heads)] if heads else maps
        chosen = some if head == "all" else some.mean(axis=0)[None]
        if words:
            chosen = np.stack([join_words(map, self.source_word_ids, self.word_ids) for map in chosen])
            rows, columns = self.words, self.source_words
        return Picture(svg_map(chosen if head == "all" else chosen[0], columns, rows, title, captions))

    def _seen(self, of: Attended) -> tuple[tuple[str, ...], tuple[str, ...], list[np.ndarray]]:
        """Labels of rows and columns, and each layer as [H, rows, columns]."""
        if of == "encoder":
            return self.source_tokens, self.source_tokens, list(self.encoder)
        if of == "decoder":
            return (*self.tokens, _END), (_START, *self.tokens), list(self.decoder)
        first = int(self.aligned_by.shift)
        steps = slice(first, first + len(self.tokens))
        layers = [layer[steps].transpose(1, 0, 2) for layer in self.posterior]
        return self.tokens, self.source_tokens, layers

    def __repr__(self) -> str:
        """Its text and score."""
        why = f", refused={self.refused!r}" if self.refused else f", score={self.score:.4f}"
        return f"TranslationResult({self.text!r}{why})"

    def __str__(self) -> str:
        """Its text."""
        return self.text
