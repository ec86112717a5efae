"""The configuration of the Transformer, and what must fit together in it."""

from typing import Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import config, option
from regard.errors import ConfigError
from regard.layers.feedforward import FeedForwardConfig
from regard.layers.position import PositionConfig, SinusoidalConfig
from regard.models.mechanisms import check_mechanisms, mechanisms_of, refuse_two

__all__ = ["TransformerConfig", "TransformerSideConfig", "check"]


@config
class TransformerSideConfig:
    """One side of a Transformer."""

    layers: int = option(default=6, help="How many layers.", ge=1, le=256)
    local: int = option(
        default=0,
        help="So many of the lowest layers have self-attention with a learned bias towards near words "
        "(Yang et al. 2018, whose encoder has 3).",
        ge=0,
        le=256,
    )

    def __post_init__(self) -> None:
        """Refuse a bias in more layers than there are."""
        if self.local > self.layers:
            raise ValueError(f"local = {self.local}, and there are {self.layers} layers")


@config
class TransformerConfig:
    """A Transformer; the defaults are the base model of Vaswani et al. (2017), Table 3."""

    kind: Literal["transformer"] = option(default="transformer", help="The model: a Transformer.")
    width: int = option(
        default=512, help="Width of embeddings and layers, a multiple of the heads.", ge=2, le=16_384
    )
    heads: int = option(default=8, help="Heads of every attention.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(default=FeedForwardConfig, help="The feed-forward networks.")
    encoder: TransformerSideConfig = option(default=TransformerSideConfig, help="The encoder.")
    decoder: TransformerSideConfig = option(default=TransformerSideConfig, help="The decoder.")
    norm: Literal["post", "pre"] = option(
        default="post", help="Normalise after each residual sum, as in the paper, or before each sublayer."
    )
    positions: PositionConfig = option(default=SinusoidalConfig, help="How words know where they stand.")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="How every layer of the decoder attends to the source; a mechanism of several contexts, or one "
        "that draws, in the last layer alone, with soft attention below.",
    )
    attentions: tuple[AttentionConfig, ...] = option(
        default=(), help="The same, one for each layer of the decoder from the lowest; none: `attention`."
    )
    dropout: float = option(
        default=0.1, help="Probability of dropping a number of an embedding or a sublayer.", ge=0, lt=1
    )
    tied: Literal["none", "target", "all"] = option(
        default="target", help="Share the target embeddings with the output layer, or with the source too."
    )

    def __post_init__(self) -> None:
        """Refuse a mechanism of all layers beside one for each."""
        refuse_two(self.attention, self.attentions)

    @property
    def source_attentions(self) -> tuple[AttentionConfig, ...]:
        """How each layer of the decoder attends to the source; several contexts are for the last alone."""
        return mechanisms_of(self.attention, self.attentions, self.decoder.layers, SoftAttentionConfig())


def check(config: TransformerConfig, source_size: int, target_size: int) -> None:
    """Refuse parts that do not fit together.

    Args:
        config: The configuration.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.

    Raises:
        ConfigError: names the options and what came.
    """
    if config.width % config.heads:
        raise ConfigError(f"model.width = {config.width} is not a multiple of model.heads = {config.heads}")
    check_mechanisms(config.source_attentions, config.decoder.layers)
    if config.tied == "all" and source_size != target_size:
        raise ConfigError(
            "model.tied = 'all' needs one vocabulary for both sides; "
            f"got {source_size} and {target_size} words"
        )
