"""What a search is told: how wide, how long, what it must not say, how many sentences at once."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.config import config, option

__all__ = [
    "AlignmentConfig",
    "CoveragePenaltyConfig",
    "Limits",
    "SamplingConfig",
    "SearchBatchConfig",
    "SearchConfig",
    "SearchSchemeConfig",
]


@dataclass(frozen=True)
class Limits:
    """The most tokens of a line.

    Attributes:
        source: Of its source, without a sink.
        target: Of its translation, without the end symbol.
    """

    source: int
    target: int


@config
class SearchBatchConfig:
    """How many sentences are translated at once; the translations do not depend on it."""

    sentences: int = option(default=32, help="The most sentences in a batch.", ge=1, le=100_000)
    tokens: int = option(
        default=4096, help="The most source tokens in a batch, padding included.", ge=1, le=100_000_000
    )
    longest: int = option(
        default=1000,
        help="A source sentence of more tokens is refused: an empty line, and a warning.",
        ge=1,
        le=100_000,
    )
    block: int = option(
        default=1024, help="How many lines are read, sorted by length and held at once.", ge=1, le=10_000_000
    )

    def limits(self, longest: int | None, sinks: int) -> Limits:
        """The most tokens of lines that a model can read.

        Args:
            longest: The most tokens that it can read, with sinks or the end symbol; none: any number.
            sinks: How many sinks it reads after a source.
        """
        if longest is None:
            return Limits(self.longest, self.longest)
        return Limits(*(max(1, min(self.longest, longest - more)) for more in (sinks, 1)))


@config
class CoveragePenaltyConfig:
    """The coverage penalty of Wu et al. (2016): source words that get little attention cost something."""

    weight: float = option(default=0.0, help="Beta, what it weighs; 0 turns it off.", ge=0, le=1e6)
    floor: float = option(
        default=0.1,
        help="Epsilon: a word with less attention than this costs as much as one with it.",
        gt=0,
        le=1,
    )
    unfinished: bool = option(
        default=False, help="Rank unfinished hypotheses by it too, and not finished ones alone."
    )


@config
class SearchSchemeConfig:
    """When a search stops, and whether it counts as `generate` of Hugging Face's transformers does.

    There lengths count the tokens that stand before a translation (start symbol, language) and its end
    symbol. The length penalty divides log-probabilities by length^alpha, the start symbol not counted, and
    alpha may be negative. As many finished hypotheses are kept as the beam holds.
    """

    stop: Literal["likely", "certain", "full"] = option(
        default="likely",
        help="A sentence is done when no unfinished hypothesis beats the n-best finished ones as it "
        "stands (likely), or could if it went on to the maximum length at no cost (certain; slow), or as "
        "soon as there are N finished ones (full).",
    )
    transformers: bool = option(
        default=False,
        help="Count lengths, score and stop as `generate` of transformers does; a Hugging Face directory is "
        "searched so.",
    )
    forced_end: bool = option(
        default=False,
        help="Of `transformers`: a translation at its maximum length ends there at no cost "
        "(`forced_eos_token_id`). Default: it is cut there, and its score leaves the end symbol out.",
    )
    renormalize: bool = option(
        default=False,
        help="Of `transformers`: divide probabilities by the sum of those of allowed tokens before they are "
        "compared (`renormalize_logits`).",
    )
    suppress: bool = option(
        default=True,
        help="Of `transformers`: never generate the tokens and sequences that the model's directory excludes "
        "(`bad_words_ids`, `suppress_tokens`, `begin_suppress_tokens`).",
    )

    def __post_init__(self) -> None:
        """Refuse parts of the library's way without the rest."""
        if not self.transformers and (self.forced_end or self.renormalize):
            raise ValueError("forced_end and renormalize are for transformers = true")


@config
class AlignmentConfig:
    """The attention that word links are made from, and that is shown as a model's one attention map.

    See `regard.decoding.linking`, which alone reads it.
    """

    layer: int | None = option(
        default=None,
        help="Which of the layers that attend to the source, from 0; -1 is the last. Default: the layer that "
        "guided alignment taught (guided.layer), or the last.",
        ge=-256,
        le=255,
    )
    heads: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Which of its heads, from 0; their mean is taken. Default: the heads that guided alignment "
        "taught (guided.heads), or all.",
    )
    shift: bool = option(
        default=False,
        help="Take the attention of a token from the time step that has the token as its input, the one "
        "after it was generated.",
    )
    replace_unknown: bool = option(
        default=False, help="Put the source word that an unknown word is linked to in its place."
    )

    def record(self) -> dict[str, Any]:
        """Return the layer, the heads (none: all) and the shift, as JSON can hold them."""
        layer = -1 if self.layer is None else self.layer
        return {"layer": layer, "heads": list(self.heads), "shift": self.shift}


@config
class SearchConfig:
    """Beam search; greedy search is a beam of 1."""

    beam: int = option(
        default=5, help="Hypotheses kept alive for each sentence; 1 is greedy search.", ge=1, le=1_000
    )
    nbest: int = option(
        default=1,
        help="How many translations of each sentence are returned, at most the beam.",
        ge=1,
        le=1_000,
    )
    length_penalty: float = option(
        default=1.0,
        help="Alpha of the length penalty ((5 + length) / 6)^alpha of Wu et al. (2016); 0 turns it off. With "
        "`scheme.transformers` it is length^alpha.",
        ge=-100,
        le=100,
    )
    coverage_penalty: CoveragePenaltyConfig = option(
        default=CoveragePenaltyConfig, help="What neglected source words cost."
    )
    min_length: int = option(
        default=0, help="The least tokens of a translation, end symbol left out.", ge=0, le=100_000
    )
    max_length_ratio: float = option(
        default=2.0, help="The most tokens of a translation for each source token.", ge=0, le=1_000
    )
    max_length_extra: int = option(
        default=10, help="The most tokens of a translation beyond that.", ge=1, le=100_000
    )
    no_repeat_ngram: int = option(
        default=0, help="No n-gram of this length is said twice; 0 allows it.", ge=0, le=1_000
    )
    scheme: SearchSchemeConfig = option(
        default=SearchSchemeConfig, help="When a search stops, and how it counts."
    )
    forbid_unknown: bool | None = option(
        default=None,
        help="Never generate the unknown token. Default: true with subword tokenizers, unless "
        "alignment.replace_unknown is set.",
    )
    alignment: AlignmentConfig = option(
        default=AlignmentConfig,
        help="The attention that word links are made from, and unknown words replaced by.",
    )
    batch: SearchBatchConfig = option(
        default=SearchBatchConfig, help="How many sentences are translated at once."
    )

    def __post_init__(self) -> None:
        """Refuse to return more than is kept, and rewards of short translations by our length penalty."""
        if self.nbest > self.beam:
            raise ValueError(f"nbest = {self.nbest} translations cannot come from a beam of {self.beam}")
        if self.length_penalty < 0 and not self.scheme.transformers:
            raise ValueError(f"length_penalty = {self.length_penalty}: expected 0 or more")

    @property
    def kept(self) -> int:
        """How many finished hypotheses of each sentence are kept until it is done."""
        return self.beam if self.scheme.transformers else self.nbest

    def for_text(self, subword: bool) -> "SearchConfig":
        """Return these settings with `forbid_unknown` decided.

        Args:
            subword: Whether the target tokenizer cuts words into subword tokens.
        """
        if self.forbid_unknown is not None:
            return self
        return replace(self, forbid_unknown=subword and not self.alignment.replace_unknown)


@config
class SamplingConfig:
    """Translations drawn from the model instead of searched for."""

    temperature: float = option(
        default=1.0, help="Divides the logits: below 1 sharper, above 1 flatter.", gt=0, le=1e6
    )
    top_k: int = option(
        default=0, help="Draw from this many most probable tokens only; 0: from all.", ge=0, le=10_000_000
    )
    top_p: float = option(
        default=1.0, help="Draw from the fewest tokens that hold this much probability.", gt=0, le=1
    )
    seed: int = option(
        default=1,
        help="Seed; each sentence's draw depends on it and on its line number alone.",
        ge=0,
        le=9_223_372_036_854_775_807,
    )
