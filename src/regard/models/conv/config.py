"""The configuration of the convolutional model."""

from typing import Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.layers.position_encoding import LearnedPositionConfig
from regard.models.base import TIE_EMBEDDINGS_HELP
from regard.models.stack_layer import ATTENTION_HELP, LAYER_ATTENTION_HELP

__all__ = ["ConvConfig", "ConvSideConfig"]


@configclass
class ConvSideConfig:
    """One side of a convolutional model."""

    num_layers: int = option(default=20, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(default=512, help="Hidden size of the layers.", ge=1, le=16_384)
    kernel_size: int = option(
        default=3, help="Kernel size of the convolutions, in tokens; odd in the encoder.", ge=1, le=255
    )


@configclass
class ConvConfig:
    """A convolutional model. The defaults are those of Gehring et al. (2017), Section 5.1 (En-Ro)."""

    kind: Literal["conv"] = option(default="conv", help="A convolutional encoder-decoder.")
    embedding_size: int = option(
        default=512,
        help="Size of the embeddings, of the attention queries and of the output layer's input.",
        ge=1,
        le=16_384,
    )
    encoder: ConvSideConfig = option(default=ConvSideConfig, help="The encoder.")
    decoder: ConvSideConfig = option(default=ConvSideConfig, help="The decoder.")
    position_encoding: LearnedPositionConfig = option(
        default=LearnedPositionConfig, help="Position encoding."
    )
    attention: AttentionConfig = option(default=SoftAttentionConfig, help=ATTENTION_HELP)
    layer_attention: tuple[AttentionConfig, ...] = option(default=(), help=LAYER_ATTENTION_HELP)
    dropout: float = option(
        default=0.1,
        help="Dropout probability on embeddings, on the input of each convolution and on the input of the "
        "output layer.",
        ge=0,
        lt=1,
    )
    tie_embeddings: Literal["none", "decoder", "all"] = option(default="none", help=TIE_EMBEDDINGS_HELP)
    scale_encoder_gradient: bool = option(
        default=True,
        help="Divide the gradient of the encoder by twice the number of attention layers, as in the paper.",
    )
