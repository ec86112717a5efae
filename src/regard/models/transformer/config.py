"""The configuration of the Transformer."""

from typing import Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.layers.position_encoding import PositionEncodingConfig, SinusoidalPositionConfig
from regard.models.base import TIE_EMBEDDINGS_HELP
from regard.models.stack_layer import ATTENTION_HELP, LAYER_ATTENTION_HELP

__all__ = ["FeedForwardConfig", "TransformerConfig", "TransformerDecoderConfig", "TransformerEncoderConfig"]


@configclass
class FeedForwardConfig:
    """The feed-forward network of the Transformer layers."""

    ffn_size: int = option(default=2048, help="Width of the hidden layer.", ge=1, le=65_536)
    dropout: float = option(default=0.0, help="Dropout probability of the hidden layer.", ge=0, lt=1)


@configclass
class TransformerEncoderConfig:
    """The encoder of a Transformer."""

    num_layers: int = option(default=6, help="Number of layers.", ge=1, le=256)
    num_localness_layers: int = option(
        default=0,
        help="Number of layers, counted from the lowest, whose self-attention has a learned bias toward "
        "nearby positions (Yang et al., 2018, use 3). 0 disables the bias.",
        ge=0,
        le=256,
    )


@configclass
class TransformerDecoderConfig:
    """The decoder of a Transformer."""

    num_layers: int = option(default=6, help="Number of layers.", ge=1, le=256)


@configclass
class TransformerConfig:
    """A Transformer. The defaults are the base model of Vaswani et al. (2017), Table 3."""

    kind: Literal["transformer"] = option(default="transformer", help="A Transformer.")
    d_model: int = option(
        default=512, help="Model dimension (d_model), a multiple of `num_heads`.", ge=2, le=16_384
    )
    num_heads: int = option(default=8, help="Number of attention heads.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(default=FeedForwardConfig, help="The feed-forward networks.")
    encoder: TransformerEncoderConfig = option(default=TransformerEncoderConfig, help="The encoder.")
    decoder: TransformerDecoderConfig = option(default=TransformerDecoderConfig, help="The decoder.")
    norm_position: Literal["post", "pre"] = option(
        default="post",
        help="Layer normalization after each residual sum, as in the paper (post), or before each sublayer "
        "(pre).",
    )
    position_encoding: PositionEncodingConfig = option(
        default=SinusoidalPositionConfig, help="Position encoding."
    )
    attention: AttentionConfig = option(default=SoftAttentionConfig, help=ATTENTION_HELP)
    layer_attention: tuple[AttentionConfig, ...] = option(default=(), help=LAYER_ATTENTION_HELP)
    dropout: float = option(
        default=0.1, help="Dropout probability on embeddings and on the output of each sublayer.", ge=0, lt=1
    )
    tie_embeddings: Literal["none", "decoder", "all"] = option(default="decoder", help=TIE_EMBEDDINGS_HELP)
