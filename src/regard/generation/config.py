"""Settings of decoding: search, sampling, batches, and the attention for word links."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from pydantic import Field

from regard.config import configclass, from_dict, option, to_dict

_NESTED_OPTIONS = {
    "coverage_penalty": ("coverage_penalty", "weight"),
    "coverage_epsilon": ("coverage_penalty", "epsilon"),
    "map": ("alignment", "map"),
    "layer": ("alignment", "layer"),
    "heads": ("alignment", "heads"),
    "replace_unk": ("alignment", "replace_unk"),
}

MapMethod = Literal["attention", "gradient", "leave_one_out"]
"""Origin of the map of a translation: the model's attention, or an attribution of its predictions."""


class LengthLimits(NamedTuple):
    """Maximum numbers of tokens of a source without a sink, and of a translation without the end symbol."""

    source: int
    target: int


@configclass
class GenerationBatchConfig:
    """Batch limits for decoding. The translations do not depend on them."""

    batch_size: int = option(default=32, help="Maximum number of sentences in a batch.", ge=1, le=100_000)
    max_batch_tokens: int = option(
        default=4096,
        help="Maximum number of source tokens in a batch, including padding.",
        ge=1,
        le=100_000_000,
    )
    max_source_length: int = option(
        default=1000,
        help="Maximum number of tokens in a source sentence. A longer sentence yields an empty line and a "
        "warning.",
        ge=1,
        le=100_000,
    )
    buffer_lines: int = option(
        default=1024,
        help="Number of lines that are read, sorted by length and held in memory at once.",
        ge=1,
        le=10_000_000,
    )

    def length_limits(self, max_length: int | None, num_sinks: int) -> LengthLimits:
        """Return the maximum numbers of tokens in sentences that a model can process.

        Args:
            max_length: Maximum number of tokens in the model's input, including sinks or the end symbol. None
                for no limit.
            num_sinks: Number of sinks appended to the source.
        """
        if max_length is None:
            return LengthLimits(self.max_source_length, self.max_source_length)
        return LengthLimits(
            *(max(1, min(self.max_source_length, max_length - extra)) for extra in (num_sinks, 1))
        )


@configclass
class CoveragePenaltyConfig:
    """Coverage penalty of Wu et al. (2016): a lower score if source words receive little attention."""

    weight: float = option(
        default=0.0,
        help="Weight beta of the coverage penalty of Wu et al. (2016), added to the score: beta times the "
        "sum over source tokens of log(min(attention, 1)). 0 disables it.",
        ge=0,
        le=1e6,
    )
    epsilon: float = option(
        default=0.1,
        help="Lower limit (epsilon) on the attention of a source word inside the logarithm. It bounds the "
        "penalty of words with little or no attention.",
        gt=0,
        le=1,
    )
    rescore_only: bool = option(
        default=True,
        help="Whether the penalty ranks finished hypotheses only. false ranks unfinished ones by it as well.",
    )


@configclass
class SearchSchemeConfig:
    """Stopping criterion of search, and compatibility with `generate` of Hugging Face's transformers.

    In transformers, the length of a translation includes its prefix (start symbol, language code) and its end
    symbol. The length penalty divides log-probabilities by length^alpha, where length does not count the
    start symbol and alpha may be negative. The number of finished hypotheses that are stored equals the beam
    size.
    """

    stopping: Literal["heuristic", "exact", "first_n"] = option(
        default="heuristic",
        help="Criterion for stopping the search of a sentence, where N is `num_return` (`beam_size` with "
        "`hf_compatible`). heuristic: no unfinished hypothesis scores higher than the worst of the N "
        "best finished ones. exact: none could, even at the maximum length without further loss of "
        "probability (slow). first_n: N hypotheses are finished.",
    )
    hf_compatible: bool = option(
        default=False,
        help='Lengths and scores as in `generate` of transformers, whose early_stopping = false, "never" '
        "and true correspond to `stopping` = heuristic, exact and first_n. Models loaded from a "
        "Hugging Face directory use this.",
    )
    forced_eos: bool = option(
        default=False,
        help="Only with `hf_compatible`: append the end symbol at no cost to a translation at its maximum "
        "length (`forced_eos_token_id`). Default: the translation is truncated, and its score does not "
        "include the end symbol.",
    )
    renormalize_logits: bool = option(
        default=False,
        help="Only with `hf_compatible`: renormalize the probabilities over the allowed tokens before "
        "hypotheses are compared (`renormalize_logits`).",
    )

    def __post_init__(self) -> None:
        """Reject options that have an effect only with `hf_compatible`."""
        if not self.hf_compatible and (self.forced_eos or self.renormalize_logits):
            raise ValueError("forced_eos and renormalize_logits require hf_compatible = true")


@configclass
class AlignmentConfig:
    """The attention, or attribution, that word links are extracted from and that is shown as the model's map.

    Only `regard.generation.linking` interprets these settings.
    """

    map: MapMethod = option(
        default="attention",
        help="Origin of the attention maps and word links: the model's attention, or an attribution of the "
        "log-probability of each target token to the source tokens (gradient: gradient times embedding), or "
        "of its probability (leave_one_out: its fall without the source token).",
    )
    layer: int | None = option(
        default=None,
        help="Index of the attention layer to the source, counted from 0; -1 is the last. Default: the layer "
        "that guided alignment trained (layer in training.losses), or the last.",
        ge=-256,
        le=255,
    )
    heads: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Indices of the heads in that layer, counted from 0. Their attention is averaged. Default: the "
        "heads that guided alignment trained (heads in training.losses), or all.",
    )
    replace_unk: bool = option(
        default=False, help="Replace each unknown token by the source word that it is linked to."
    )

    def __post_init__(self) -> None:
        """Reject a layer and heads for a map that has none."""
        if self.map != "attention" and (self.layer is not None or self.heads):
            raise ValueError(
                f'layer and heads select attention: they need map = "attention", not {self.map!r}'
            )

    def record(self) -> dict[str, Any]:
        """Return the map, the layer and the heads (an empty list means all) as JSON values."""
        layer = -1 if self.layer is None else self.layer
        return {"map": self.map, "layer": layer, "heads": list(self.heads)}


@configclass
class GenerationConfig(GenerationBatchConfig):
    """Settings of beam search. Greedy search is beam search with a beam of 1."""

    beam_size: int = option(
        default=5, help="Number of unfinished hypotheses per sentence. 1 is greedy search.", ge=1, le=1_000
    )
    num_return: int = option(
        default=1, help="Number of translations returned per sentence, at most the beam size.", ge=1, le=1_000
    )
    length_penalty: float = option(
        default=1.0,
        help="Exponent alpha of the length penalty ((5 + length) / 6)^alpha of Wu et al. (2016); 0 disables "
        "it. With `scheme.hf_compatible`, the penalty is length^alpha.",
        ge=-100,
        le=100,
    )
    coverage_penalty: CoveragePenaltyConfig = option(default=CoveragePenaltyConfig, help="Coverage penalty.")
    min_length: int = option(
        default=0,
        help="Minimum number of tokens in a translation, without the end symbol. The maximum length of a "
        "sentence takes precedence.",
        ge=0,
        le=100_000,
    )
    max_length_ratio: float = option(
        default=2.0,
        help="Maximum length of a translation in tokens, as a multiple of the source length.",
        ge=0,
        le=1_000,
    )
    max_length_offset: int = option(
        default=10,
        help="Number of tokens added to the maximum length that `max_length_ratio` gives.",
        ge=1,
        le=100_000,
    )
    no_repeat_ngram_size: int = option(
        default=0,
        help="Size of the n-grams that may not occur twice in a translation. 0 allows repetition.",
        ge=0,
        le=1_000,
    )
    scheme: SearchSchemeConfig = option(
        default=SearchSchemeConfig, help="Stopping criterion and scoring scheme."
    )
    suppress_unk: bool | None = option(
        default=None,
        help="Never generate the unknown token. Default: true with subword tokenizers, unless "
        "alignment.replace_unk is set.",
    )
    alignment: AlignmentConfig = option(
        default=AlignmentConfig,
        help="The attention used for word links and for the replacement of unknown tokens.",
    )

    def __post_init__(self) -> None:
        """Reject an n-best list larger than the beam, and other settings that contradict each other."""
        if self.num_return > self.beam_size:
            raise ValueError(
                f"num_return = {self.num_return} translations require a beam of at least {self.num_return}, "
                f"not {self.beam_size}"
            )
        if self.min_length > (most := self.max_target_length(self.max_source_length)):
            raise ValueError(
                f"min_length = {self.min_length} exceeds {most}, the maximum length of a translation "
                "(max_length_ratio * max_source_length + max_length_offset)"
            )
        if self.length_penalty < 0 and not self.scheme.hf_compatible:
            raise ValueError(
                f"length_penalty = {self.length_penalty}: must be at least 0 without scheme.hf_compatible"
            )

    def max_target_length(self, source_length: int) -> int:
        """Return the maximum number of tokens of a translation of a source with this number of tokens."""
        return int(self.max_length_ratio * source_length) + self.max_length_offset


@configclass
class Sampling:
    """Settings of sampling translations from the model."""

    temperature: float = option(
        default=1.0,
        help="Divisor of the logits. Values below 1 sharpen the distribution, values above 1 flatten it.",
        gt=0,
        le=1e6,
    )
    top_k: int = option(
        default=0,
        help="Number of most probable tokens to sample from. 0 means all tokens.",
        ge=0,
        le=10_000_000,
    )
    top_p: float = option(
        default=1.0,
        help="Cumulative probability of the smallest set of most probable tokens to sample from. 1 means all "
        "tokens.",
        gt=0,
        le=1,
    )
    seed: int = option(
        default=1,
        help="Random seed. The samples of a sentence depend only on the seed and the line number.",
        ge=0,
        le=9_223_372_036_854_775_807,
    )


class SearchOverrides(TypedDict, total=False):
    """Search settings by name, which override those of a model; see `GenerationConfig`.

    `layer` and `head` (or `heads`) select the attention for word links, attention maps and the replacement of
    unknown words.

    Attributes:
        head: Head of that layer, from 0; -1 is the last. Default: the mean of the heads that the model uses
            for word links (generation.alignment.heads), or of all heads with --layer.
    """

    batch_size: int
    max_batch_tokens: int
    max_source_length: int
    buffer_lines: int
    beam_size: int
    num_return: int
    length_penalty: float
    coverage_penalty: float
    coverage_epsilon: float
    min_length: int
    max_length_ratio: float
    max_length_offset: int
    no_repeat_ngram_size: int
    suppress_unk: bool
    replace_unk: bool
    map: MapMethod
    layer: int
    head: int
    heads: list[int]


def search_settings(base: GenerationConfig, options: Mapping[str, Any]) -> GenerationConfig:
    """Return search settings in which the given options (those that are not None) are replaced.

    Args:
        base: Search settings of the model.
        options: Options by the names of `GenerationConfig` or of `_NESTED_OPTIONS`. `head` selects a single
            head. If a layer is given without heads, all of its heads are used.

    Raises:
        ConfigError: if the options are not consistent; names the option.
    """
    data, options = to_dict(base), dict(options)
    head = options.pop("head", None)
    if head is not None:
        options["heads"] = [head]
    # The heads in the model's settings belong to its own layer.
    elif options.get("layer") is not None and options.get("heads") is None:
        options["heads"] = []
    # The layer and the heads in the model's settings are those of its attention.
    if options.get("map") not in (None, "attention"):
        data["alignment"] |= {"layer": None, "heads": []}
    for name, value in options.items():
        if value is None:
            continue
        part, key = _NESTED_OPTIONS.get(name, (None, name))
        (data if part is None else data[part])[key] = value
    return from_dict(GenerationConfig, data, origin="search options")
