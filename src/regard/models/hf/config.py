"""The configurations of models that are pre-trained, or have pre-trained parts."""

from typing import Annotated, Literal

from pydantic import Field

from regard.attention.registry import AttentionConfig, mechanism
from regard.attention.soft import SoftAttentionConfig
from regard.config import config, option
from regard.layers.feedforward import FeedForwardConfig
from regard.models.transformer_config import TransformerConfig, TransformerSideConfig

__all__ = ["HfConfig", "PretrainedConfig"]


@config
class HfConfig:
    """A sequence-to-sequence model of Hugging Face's library, or one put together of two of its folders."""

    kind: Literal["hf"] = option(default="hf", help="The model: one of Hugging Face's library (extra `hf`).")
    folder: str | None = option(
        default=None, help="The folder of a sequence-to-sequence model (Marian, BART, T5...)."
    )
    encoder: str | None = option(
        default=None, help="In its place, the folder of an encoder (the BERT family), with `decoder`."
    )
    decoder: str | None = option(
        default=None, help="The folder of a language model (GPT-2), which gets new attention to the source."
    )
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help="How its decoder attends to the source; soft attention with softmax is its own.",
    )
    layers: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="The layers of the decoder with `attention`, from 0; -1 is the last. Default: all.",
    )

    def __post_init__(self) -> None:
        """Refuse what is neither one folder nor two, and mechanisms of several contexts."""
        pair = self.encoder, self.decoder
        if (None in pair) == (self.folder is None) or (self.folder is not None and pair != (None, None)):
            raise ValueError("a model is either `folder`, or `encoder` and `decoder`")
        kind = mechanism(self.attention)
        if kind.observes or kind.objective != "marginal" or kind.projects or kind.enters:
            raise ValueError(
                f"attention {self.attention.kind!r} has several contexts, draws, or makes projections of its "
                "own: in a model of Hugging Face's stand soft, constrained, coverage and local attention; "
                "model.kind = 'pretrained' takes the others"
            )

    @property
    def folders(self) -> dict[str, str]:
        """The folders by their names."""
        found = {"folder": self.folder, "encoder": self.encoder, "decoder": self.decoder}
        return {name: path for name, path in found.items() if path is not None}


@config
class PretrainedConfig:
    """A pre-trained encoder of Hugging Face's library with a Transformer's decoder of ours."""

    kind: Literal["pretrained"] = option(
        default="pretrained", help="The model: a pre-trained encoder (extra `hf`), a new decoder."
    )
    encoder: str = option(help="The folder of the encoder: any of the BERT family, or a larger model's own.")
    layers: int = option(default=6, help="Layers of the decoder.", ge=1, le=256)
    width: int = option(default=512, help="Width of the decoder, a multiple of the heads.", ge=2, le=16_384)
    heads: int = option(default=8, help="Heads of every attention of the decoder.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(default=FeedForwardConfig, help="Its feed-forward networks.")
    norm: Literal["post", "pre"] = option(
        default="post", help="Normalise after each residual sum, or before each sublayer."
    )
    attention: AttentionConfig = option(
        default=SoftAttentionConfig, help="How every layer of the decoder attends to the source."
    )
    attentions: tuple[AttentionConfig, ...] = option(
        default=(), help="The same, one for each layer of the decoder from the lowest; none: `attention`."
    )
    dropout: float = option(
        default=0.1, help="Probability of dropping a number of an embedding or a sublayer.", ge=0, lt=1
    )
    tied: Literal["none", "target"] = option(
        default="target", help="Share the target embeddings with the output layer."
    )

    @property
    def folders(self) -> dict[str, str]:
        """The folders by their names."""
        return {"encoder": self.encoder}

    @property
    def transformer(self) -> TransformerConfig:
        """The decoder as a Transformer's; the encoder it speaks of is not made."""
        return TransformerConfig(
            width=self.width,
            heads=self.heads,
            feed_forward=self.feed_forward,
            encoder=TransformerSideConfig(layers=1),
            decoder=TransformerSideConfig(layers=self.layers),
            norm=self.norm,
            attention=self.attention,
            attentions=self.attentions,
            dropout=self.dropout,
            tied=self.tied,
        )
