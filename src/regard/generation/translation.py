"""The translation of a line, generated or scored: text, tokens, scores and attention, with one JSON form.

It is the only result of translators, for Python, the command line, the server and the report, which write the
same JSON fields (`Translation.to_data`). A field has the name of the attribute that it contains.
"""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.attention.constrained import LOWER_BOUND_TOLERANCE
from regard.config.results import SCHEMA_VERSION, Result, html_table, json_value, rounded_numbers
from regard.data.fertility import Fertilities
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.config import AlignmentConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.linking import (
    AttentionKind,
    attention_links,
    attention_map,
    plot_translation,
    select_heads,
    tokens_to_words,
)
from regard.generation.reranking import LineRepair
from regard.metrics.alignment import AttentionMap, map_difference
from regard.text.links import Links
from regard.text.vocabulary import UNK

if TYPE_CHECKING:
    from regard.plot.figure import Figure

AttentionDetail = Literal["none", "words", "tokens", "layers"]
"""Attention in JSON: none; between words; also between tokens; also of all layers, heads and time steps."""
_EOS = "</s>"


@dataclass(frozen=True, eq=False, repr=False)
class Translation(Result):
    """A translation of a line, generated or given. Scores are natural logarithms.

    Attributes:
        source: The source text.
        processor: Text processing of the model, whose vocabularies and tokenizers the tokens are from. It is
            not part of the JSON form.
        text: The translation. Empty if the source text is empty or rejected.
        number: Number of the line, counted from 1.
        source_tokens: S source tokens, including `<sink>` if the model has one.
        tokens: T target tokens. An end symbol follows them.
        score: Score that search ranks by. NaN if there is no translation.
        log_probability: log p(tokens, end symbol | source).
        token_log_probs: [T + 1], log-probability of each token and, last, of the end symbol; or empty.
        attention: Weights [T + 1, H, S] of each attention layer, for all heads and all time steps including
            that of the end symbol.
        posteriors: Posterior attention in the same form, after each token is known. Empty if it equals
            `attention`. With hard attention, it is the probability of each selection.
        correct: [T + 1], after forced decoding: whether the top-scoring token of each step is the given one.
        contributions: [T + 1, S], positive and negative contributions of the source tokens if the map is an
            attribution, which `attention` then shows; see `regard.generation.attribution`.
        fertilities: User-specified minimum and maximum attention of the tokens.
        alignment_config: Layer and heads of the attention used for `attention_map` and `alignment`.
        encoder_attention: Self-attention [H, S, S] of each encoder layer of a Transformer, if requested: from
            token i to token j.
        decoder_attention: Self-attention [H, T + 1, T + 1] of each decoder layer. Each step attends to the
            start symbol and the previous tokens.
        error: Why the text was not translated, or None.
        missing_terms: Required terms that this or another translation of the n-best list does not contain,
            with the reason if it is known.
        retokenized: For a scored translation: whether tokenizing its text gives other tokens.
        alternatives: The other requested translations, best first. They have no alternatives themselves.
        repair: The check of the translation, with the text before its repair. None if it was not checked.
    """

    schema = "translation"
    source: str
    processor: TextProcessor
    text: str = ""
    number: int = 1
    source_tokens: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    score: float = float("nan")
    log_probability: float = float("nan")
    token_log_probs: Float[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0))
    attention: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    posteriors: tuple[Float[np.ndarray, "N _ S"], ...] = ()
    correct: Bool[np.ndarray, "N"] | None = None
    contributions: Float[np.ndarray, "N S"] | None = None
    fertilities: Fertilities | None = None
    alignment_config: AlignmentConfig = field(default_factory=AlignmentConfig)
    encoder_attention: tuple[Float[np.ndarray, "_ S S"], ...] = ()
    decoder_attention: tuple[Float[np.ndarray, "_ N N"], ...] = ()
    error: str | None = None
    missing_terms: tuple[str, ...] = ()
    retokenized: bool = False
    alternatives: tuple["Translation", ...] = ()
    repair: LineRepair | None = None

    def with_nbest(self, candidates: Iterable[tuple[str, Sequence[str], Hypothesis]]) -> "Translation":
        """Return the first candidate, with the others as its alternatives; this one without a candidate.

        Args:
            candidates: Text, tokens and hypothesis of each translation of this line, best first.
        """
        translations = [self.with_hypothesis(*candidate) for candidate in candidates]
        return replace(translations[0], alternatives=tuple(translations[1:])) if translations else self

    def with_hypothesis(self, text: str, tokens: Sequence[str], hypothesis: Hypothesis) -> "Translation":
        """Return a copy with the text and the tokens of a hypothesis, its scores and its attention."""
        return replace(
            self,
            text=text,
            tokens=tuple(tokens),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            token_log_probs=np.array(hypothesis.token_log_probs),
            attention=hypothesis.attention,
            posteriors=hypothesis.posteriors,
        )

    # Words are computed on demand, because most translations are only written as text.
    @property
    def text_source_tokens(self) -> tuple[str, ...]:
        """Return the source tokens without the sink and other symbols that are added to the text."""
        # A line without tokens is not translated, so it has no sink.
        num_added = len(self.processor.sink_tokens) if self.source_tokens else 0
        return self.source_tokens[: len(self.source_tokens) - num_added]

    @cached_property
    def source_words(self) -> tuple[str, ...]:
        """Return the words of the source text, with subword tokens joined."""
        return tokens_to_words(self.processor.source, self.text_source_tokens)

    @cached_property
    def target_words(self) -> tuple[str, ...]:
        """Return the words of the translation."""
        return tokens_to_words(self.processor.target, self.tokens)

    @cached_property
    def source_word_ids(self) -> tuple[int, ...]:
        """Return the word index of each source token, from 0; -1 for the sink, -2 for an added symbol."""
        source = self.processor.source
        sinks = self.processor.sink_tokens if self.source_tokens else ()
        sink_id = -2 if source.tokenizer.special_tokens else -1
        return (*source.word_ids(self.text_source_tokens), *(sink_id for _ in sinks))

    @cached_property
    def target_word_ids(self) -> tuple[int, ...]:
        """Return the word index of each token of `tokens`."""
        return tuple(self.processor.target.word_ids(self.tokens))

    @cached_property
    def unknown_words(self) -> tuple[int, ...]:
        """Return the indices of the source words with a token that is not in the vocabulary."""
        ids = self.processor.source.vocabulary.to_ids(self.text_source_tokens)
        return tuple(sorted({self.source_word_ids[i] for i, number in enumerate(ids) if number == UNK}))

    @cached_property
    def fertility_bounds(self) -> tuple[tuple[float, float], ...] | None:
        """Return the lower and upper bound of the attention of each source word, summed over its tokens.

        None for a model without fertilities. The sink is not a word of the text, so it has no bounds here.
        """
        tokens, budget = self.text_source_tokens, self.processor.budget
        if budget is None or not tokens:
            return None if budget is None else ()
        ids = self.processor.source.vocabulary.to_ids(tokens)
        upper, lower = budget.bounds([ids], [self.fertilities], num_sinks=0)
        words = self.processor.source.word_ids(tokens)
        lows, highs = (
            np.bincount(words, bounds.astype(np.float64)).tolist()
            for bounds in (lower[0] if lower else np.zeros(len(ids)), upper[0])
        )
        return tuple(zip(lows, highs, strict=True))

    @property
    def nbest(self) -> tuple["Translation", ...]:
        """Return all requested translations, best first, including this one; none without a translation."""
        return () if math.isnan(self.score) else (self, *self.alternatives)

    @property
    def unmet_lower_bounds(self) -> list[tuple[int, float]]:
        """Return the source tokens with less attention than their minimum, and the attention received.

        As in search, the total may be half a unit below the minimum, and attention is averaged over heads.
        The minimum may be violated if a translation reaches its maximum length or if no attention is left.
        """
        # The map of an attribution does not contain the attention that a token received.
        if self.fertilities is None or not self.attention or self.alignment_config.map != "attention":
            return []
        received = self.attention[-1].mean(axis=1).sum(0).tolist()
        # The sink, if there is one, follows the source tokens and has no minimum.
        pairs = enumerate(zip(received, self.fertilities, strict=False))
        return [(i, total) for i, (total, (low, _)) in pairs if total < low - LOWER_BOUND_TOLERANCE]

    @property
    def attends(self) -> bool:
        """Return whether there is any attention. The weights of a model without attention are all 0."""
        return self.contributions is not None or any(layer.any() for layer in self.attention)

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
    def word_attention_map(self) -> AttentionMap:
        """Return the attention between words: sums over source tokens, means over target tokens.

        It has the words as labels, and a column for the sink if there is one.
        """
        ids = self.source_word_ids, self.target_word_ids
        return AttentionMap.of_tokens(self.attention_map, self.source_words, self.target_words, *ids)

    @cached_property
    def received_attention(self) -> Float[np.ndarray, "C"]:
        """Return the total attention of each source word, and last of the sink if there is one.

        It is the sum over all time steps, including that of the end symbol.
        """
        # `bincount` needs indices from 0. All tokens outside of words share one column after the words.
        words = np.array([len(self.source_words) if i < 0 else i for i in self.source_word_ids], dtype=int)
        if not self.attention:
            return np.zeros(int(words.max(initial=-1)) + 1)
        steps = select_heads(self.posterior_attention, self.alignment_config).mean(axis=1)
        return np.bincount(words, steps.sum(axis=0))

    @cached_property
    def links(self) -> Links:
        """Return for each target word the source word with the highest attention, both counted from 0.

        A word whose highest attention is on the sink is not linked; see `regard.generation.linking`.
        """
        words = self.source_word_ids, self.target_word_ids
        return attention_links(self.attention, self.posterior_attention, self.alignment_config, words)

    @property
    def alignment(self) -> Int[np.ndarray, "L 2"]:
        """Return `links` as sorted rows (source, target)."""
        return np.array(sorted(self.links), dtype=np.int64).reshape(-1, 2)

    def difference(self, other: "Translation") -> AttentionMap:
        """Return this attention map minus another model's of the same words; a missing sink counts as 0.

        Raises:
            DataError: if the words differ; names the first difference.
        """
        return map_difference(self.word_attention_map, other.word_attention_map, ("this one", "the other"))

    def plot_difference(
        self, other: "Translation", names: tuple[str, str] = ("this one", "the other")
    ) -> "Figure":
        """Plot `difference`: red where this model has more attention, blue where the other has more.

        Raises:
            DataError: if the words differ, or the names are equal.
        """
        from regard.plot.heatmap import difference_heatmap

        difference = map_difference(self.word_attention_map, other.word_attention_map, names)
        return difference_heatmap(difference, names).figure()

    def plot(
        self,
        words: bool = False,
        layer: int | None = None,
        head: int | Literal["mean", "all"] | None = None,
        kind: AttentionKind = "source",
    ) -> "Figure":
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

        Returns:
            A picture, which notebooks display, `save` writes to a file, and `plot_on` plots on axes.

        Raises:
            UsageError: if there is no such layer or head, or no attention.
        """
        return plot_translation(self, words, layer, head, kind)

    def to_data(self, attention: AttentionDetail = "words") -> dict[str, Any]:
        """Return the fields as JSON values. A number that is not finite, such as a missing score, is null.

        Args:
            attention: Amount of attention. Fields with other attention are null. The maps are rounded to five
                significant digits; the weights of `layers` are exact.
        """
        bounds = self.fertility_bounds
        return {
            "source": self.source,
            "source_tokens": list(self.source_tokens),
            "source_words": list(self.source_words),
            "source_word_ids": list(self.source_word_ids),
            "unknown_words": list(self.unknown_words),
            "fertility_bounds": None
            if bounds is None
            else [{"lower": low, "upper": json_value(high)} for low, high in bounds],
            "sink": any(word < 0 for word in self.source_word_ids),
            "alignment_config": self.alignment_config.record(),
            "error": self.error,
            "missing_terms": list(self.missing_terms),
            "repair": json_value(self.repair),
            **self.target_data(attention),
            "alternatives": [alternative.target_data(attention) for alternative in self.alternatives],
        }

    def target_data(self, attention: AttentionDetail) -> dict[str, Any]:
        """Return the fields that differ between the translations of an n-best list."""
        words = self.attends and attention != "none"
        layers = attention == "layers"
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "target_words": list(self.target_words),
            "target_word_ids": list(self.target_word_ids),
            "score": json_value(self.score),
            "log_probability": json_value(self.log_probability),
            "token_log_probs": [json_value(value) for value in self.token_log_probs.tolist()],
            "retokenized": self.retokenized,
            "alignment": self.alignment.tolist() if self.attends else [],
            "word_attention_map": rounded_numbers(self.word_attention_map.weights) if words else None,
            "received_attention": rounded_numbers(self.received_attention) if words else None,
            "attention_map": rounded_numbers(self.attention_map) if words and attention != "words" else None,
            # The text of a float32 is the shortest decimal that distinguishes it from its neighbors, so that
            # no nonzero weight of sparse attention becomes 0.
            **{
                name: [layer.astype(str).astype(float).tolist() for layer in getattr(self, name)]
                if layers
                else None
                for name in ("attention", "posterior_attention", "encoder_attention", "decoder_attention")
            },
        }

    def to_dict(self, attention: AttentionDetail = "words") -> dict[str, Any]:
        """Return `to_data` with the name and the version of the schema."""
        return {"schema": self.schema, "schema_version": SCHEMA_VERSION, **self.to_data(attention)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per token, the last for the end symbol: token, word, log-probability."""
        if not len(self.token_log_probs):
            return []
        words = [self.target_words[word] for word in self.target_word_ids]
        tokens = zip((*self.tokens, _EOS), (*words, ""), self.token_log_probs.tolist(), strict=True)
        return [{"token": token, "word": word, "log_prob": log_prob} for token, word, log_prob in tokens]

    def row(self) -> dict[str, Any]:
        """Return the row of the translation in a table of translations."""
        names = ("source", "text", "score", "log_probability", "error")
        return {name: getattr(self, name) for name in names}

    def _repr_html_(self) -> str:
        """Return the texts, the score and the attention map for notebooks."""
        table = html_table([self.row()])
        # A map without weights or rows cannot be plotted, and a notebook must still show the texts.
        if not (self.attends and self.tokens):
            return table
        try:
            return table + self.plot(words=True).svg
        except UsageError as error:  # matplotlib is not installed
            return f"{table}<p>{html.escape(str(error))}</p>"

    def __repr__(self) -> str:
        """Return the text and its score."""
        why = f", error={self.error!r}" if self.error else f", score={self.score:.4f}"
        return f"Translation({self.text!r}{why})"

    def __str__(self) -> str:
        """Return the text."""
        return self.text
