"""The configuration of the convolutional model, with checks of its consistency."""

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

    layers: int = option(default=20, help="Number of layers.", ge=1, le=256)
    width: int = option(default=512, help="Hidden size of the layers.", ge=1, le=16_384)
    kernel: int = option(
        default=3, help="Kernel size of the convolutions, in tokens; odd in the encoder.", ge=1, le=255
    )


@config
class ConvConfig:
    """A convolutional model. The defaults are those of Gehring et al. (2017), Section 5.1 (En-Ro)."""

    kind: Literal["conv"] = option(default="conv", help="The model: a convolutional encoder-decoder.")
    embedding: int = option(
        default=512,
        help="Size of the embeddings, of the attention queries and of the output layer's input.",
        ge=1,
        le=16_384,
    )
    encoder: ConvSideConfig = option(default=ConvSideConfig, help="The encoder.")
    decoder: ConvSideConfig = option(default=ConvSideConfig, help="The decoder.")
    positions: LearnedConfig = option(default=LearnedConfig, help="Position encoding.")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="Attention mechanism of every decoder layer; its score function defaults to dot here. A "
        "mechanism with several contexts, or one that samples, is used only in the last layer, with soft "
        "attention in the layers below.",
    )
    attentions: tuple[AttentionConfig, ...] = option(
        default=(), help="Attention mechanism of each decoder layer, lowest first. Default: `attention`."
    )
    dropout: float = option(
        default=0.1,
        help="Dropout probability on embeddings, on the input of each convolution and on the input of the "
        "output layer.",
        ge=0,
        lt=1,
    )
    tied: Literal["none", "decoder", "all"] = option(
        default="none",
        help="Tie the target embeddings with the output layer (target), or also with the source embeddings "
        "(all).",
    )
    shared_gradient: bool = option(
        default=True,
        help="Divide the gradient of the encoder by twice the number of attention layers, as in the paper.",
    )

    def __post_init__(self) -> None:
        """Check that `attention` and `attentions` are not both set."""
        refuse_two(self.attention, self.attentions)

    @property
    def source_attentions(self) -> tuple[AttentionConfig, ...]:
        """The mechanism of each decoder layer; several contexts are allowed only in the last layer."""
        found = mechanisms_of(self.attention, self.attentions, self.decoder.layers, SoftAttentionConfig())
        return tuple(_scored(one) for one in found)


def _scored(config: Any) -> AttentionConfig:
    """Return the config with the dot product (the paper's Eq. 1) as scorer, unless a scorer is set."""
    return replace(config, scorer="dot") if getattr(config, "scorer", "none") is None else config


def check(config: ConvConfig, source_size: int, target_size: int) -> None:
    """Check that the parts of the configuration are compatible.

    Args:
        config: The configuration.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.

    Raises:
        ConfigError: if parts are incompatible. The message names the options and their values.
    """
    if config.encoder.kernel % 2 == 0:
        raise ConfigError(
            "model.encoder.kernel must be odd, so that windows are centered on a word; "
            f"got {config.encoder.kernel}"
        )
    check_mechanisms(config.source_attentions, config.decoder.layers)
    if config.tied == "all" and source_size != target_size:
        raise ConfigError(
            "model.tied = 'all' needs one vocabulary for both sides; "
            f"got vocabularies of {source_size} and {target_size} tokens"
        )
