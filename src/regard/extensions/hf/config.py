"""The configurations of pre-trained models, and of models with pre-trained parts."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.attention.registry import AttentionConfig, attention_class
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.models.stack_layer import ATTENTION_HELP, LAYER_ATTENTION_HELP, check_exclusive
from regard.models.transformer.model import (
    FeedForwardConfig,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)


@configclass
class HfConfig:
    """A Hugging Face sequence-to-sequence model."""

    kind: Literal["hf"] = option(default="hf", help="A Hugging Face model; requires the extra `hf`.")
    path: str = option(help="Directory of a sequence-to-sequence model (Marian, BART, T5, ...).")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="Attention mechanism of the layers in `attention_layers`: soft (with softmax, the pre-trained "
        "one), coverage or constrained.",
    )
    attention_layers: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Decoder layers that use [model.attention], counted from 0; -1 is the last. The other layers "
        "use softmax attention. []: all layers.",
    )

    def __post_init__(self) -> None:
        """Check that the mechanism has a single context."""
        kind = attention_class(self.attention)
        if kind.observes_tokens or kind.objective != "marginal" or kind.has_projections or kind.needs_advance:
            raise ValueError(
                f"attention {self.attention.kind!r} has several contexts, samples, or has its own "
                "projections, so it cannot be used in a Hugging Face model: use soft, constrained "
                "or coverage attention, or model.kind = 'pretrained'"
            )


@configclass
class PretrainedConfig:
    """A pre-trained Hugging Face encoder with a new Transformer decoder."""

    kind: Literal["pretrained"] = option(
        default="pretrained", help="A pre-trained encoder with a new decoder; requires the extra `hf`."
    )
    encoder_path: str = option(
        help="Directory of the encoder: a model of the BERT family, or a sequence-to-sequence model."
    )
    num_layers: int = option(default=6, help="Number of decoder layers.", ge=1, le=256)
    d_model: int = option(
        default=512,
        help="Model dimension (d_model) of the decoder, a multiple of `num_heads`.",
        ge=2,
        le=16_384,
    )
    num_heads: int = option(default=8, help="Number of attention heads of the decoder.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(
        default=FeedForwardConfig, help="The feed-forward networks of the decoder."
    )
    norm_position: Literal["post", "pre"] = option(
        default="post",
        help="Layer normalization after each residual sum (post), or before each sublayer (pre).",
    )
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help=ATTENTION_HELP,
    )
    layer_attention: tuple[AttentionConfig, ...] = option(
        default=(),
        help=LAYER_ATTENTION_HELP,
    )
    dropout: float = option(
        default=0.1, help="Dropout probability on embeddings and on the output of each sublayer.", ge=0, lt=1
    )
    tie_embeddings: Literal["none", "decoder"] = option(
        default="decoder",
        help="Tie the target embeddings with the output layer (decoder), or not (none).",
    )

    def __post_init__(self) -> None:
        """Check that `attention` and `layer_attention` are not both set."""
        check_exclusive(self)

    @property
    def transformer(self) -> TransformerConfig:
        """The configuration of the decoder as a Transformer; its encoder part is not used."""
        return TransformerConfig(
            d_model=self.d_model,
            num_heads=self.num_heads,
            feed_forward=self.feed_forward,
            encoder=TransformerEncoderConfig(num_layers=1),
            decoder=TransformerDecoderConfig(num_layers=self.num_layers),
            norm_position=self.norm_position,
            attention=self.attention,
            layer_attention=self.layer_attention,
            dropout=self.dropout,
            tie_embeddings=self.tie_embeddings,
        )


@configclass
class LoraConfig:
    """Low-rank adaptation (Hu et al., 2022): each weight matrix W becomes W + alpha / rank * B A.

    The pre-trained weights stay fixed; only A and B are trained.
    """

    rank: int = option(default=8, help="Rank of the product B A.", ge=1, le=4_096)
    alpha: float = option(
        default=16.0, help="Scale alpha; the product is multiplied by alpha / rank.", gt=0, le=1e6
    )
    dropout: float = option(default=0.0, help="Dropout probability on the input of A.", ge=0, lt=1)
    target_modules: tuple[str, ...] = option(
        default=(),
        help="Names of the adapted layers, such as q_proj. Default: those that peft chooses for the kind of "
        "model.",
    )


@configclass
class CausalConfig:
    """A decoder-only Hugging Face model, which translates the source sentence in its prompt."""

    kind: Literal["causal"] = option(
        default="causal",
        help="A decoder-only Hugging Face model; requires the extra `hf` and the tokenizer `prompt`.",
    )
    path: str = option(help="Directory of the model (GPT-2, Llama, Qwen, Gemma, ...).")
    lora: LoraConfig | None = option(
        default=None,
        help="Fine-tuning of low-rank additions to the weights; requires the package peft. Default: all "
        "weights are trained.",
    )

    # The attention of the model is not replaced: softmax over the prompt and the translation.
    attention: ClassVar[SoftAttentionConfig] = SoftAttentionConfig()
