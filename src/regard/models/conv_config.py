"""The configuration of the convolutional model, and what must fit together in it."""

from dataclasses import replace
from typing import Any, Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import config, option
from regard.errors import ConfigError
from regard.layers.position import LearnedConfig
from regard.models.mechanisms import check_mechanisms, mechanisms_of, refuse_two

__all__ = ["ConvConfig", "ConvSideConfig", "check"]


@config
class ConvSideConfig:
    """One side of a convolutional model."""

    layers: int = option(default=20, help="How many layers.", ge=1, le=256)
    width: int = option(default=512, help="Width of its layers.", ge=1, le=16_384)
    kernel: int = option(
        default=3, help="How many words a convolution sees; odd in the encoder.", ge=1, le=255
    )


@config
class ConvConfig:
    """A convolutional model; the defaults are that of Gehring et al. (2017), Section 5.1, for Romanian."""

    kind: Literal["conv"] = option(default="conv", help="The model: convolutions on both sides.")
    embedding: int = option(
        default=512,
        help="Width of the embeddings, of attention and of what the output layer reads.",
        ge=1,
        le=16_384,
    )
    encoder: ConvSideConfig = option(default=ConvSideConfig, help="The encoder.")
    decoder: ConvSideConfig = option(default=ConvSideConfig, help="The decoder.")
    positions: LearnedConfig = option(default=LearnedConfig, help="How words know where they stand.")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="How every layer of the decoder attends to the source (an absent scorer is dot here); a "
        "mechanism of several contexts, or one that draws, in the last layer alone, with soft attention "
        "below.",
    )
    attentions: tuple[AttentionConfig, ...] = option(
        default=(), help="The same, one for each layer of the decoder from the lowest; none: `attention`."
    )
    dropout: float = option(
        default=0.1,
        help="Probability of dropping a number of an embedding, of what a convolution sees or of what the "
        "output layer reads.",
        ge=0,
        lt=1,
    )
    tied: Literal["none", "target", "all"] = option(
        default="none", help="Share the target embeddings with the output layer, or with the source too."
    )
    shared_gradient: bool = option(
        default=True,
        help="Divide the gradient of the encoder's layers by twice the layers that attend, as in the paper.",
    )

    def __post_init__(self) -> None:
        """Refuse a mechanism of all layers beside one for each."""
        refuse_two(self.attention, self.attentions)

    @property
    def source_attentions(self) -> tuple[AttentionConfig, ...]:
        """How each layer of the decoder attends to the source; several contexts are for the last alone."""
        found = mechanisms_of(self.attention, self.attentions, self.decoder.layers, SoftAttentionConfig())
        return tuple(_scored(one) for one in found)


def _scored(config: Any) -> AttentionConfig:
    """A mechanism that compares by the dot product of the paper's Eq. 1, where no other way is asked for."""
    return replace(config, scorer="dot") if getattr(config, "scorer", "none") is None else config


def check(config: ConvConfig, source_size: int, target_size: int) -> None:
    """Refuse parts that do not fit together.

    Args:
        config: The configuration.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.

    Raises:
        ConfigError: names the options and what came.
    """
    if config.encoder.kernel % 2 == 0:
        raise ConfigError(
            f"model.encoder.kernel must be odd, as many words on each side; got {config.encoder.kernel}"
        )
    check_mechanisms(config.source_attentions, config.decoder.layers)
    if config.tied == "all" and source_size != target_size:
        raise ConfigError(
            "model.tied = 'all' needs one vocabulary for both sides; "
            f"got {source_size} and {target_size} words"
        )
