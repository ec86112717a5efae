"""The configuration of the recurrent encoder-decoder, and what must fit together in it."""

from typing import Annotated, Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import Kinds, config, option
from regard.errors import ConfigError
from regard.layers.cells import CellKind
from regard.models.conv_encoder import ConvEncoderConfig
from regard.models.recurrent import BridgeKind, EncoderConfig

__all__ = ["DecoderConfig", "LstmConfig", "LstmEncoderConfig", "check"]

LstmEncoderConfig = Annotated[EncoderConfig | ConvEncoderConfig, Kinds("recurrent")]


@config
class DecoderConfig:
    """The recurrent decoder."""

    layers: int = option(default=2, help="How many layers.", ge=1, le=256)
    width: int = option(
        default=500, help="Width of its states and of the attentional vector.", ge=1, le=16_384
    )
    cell: CellKind = option(default="lstm", help="The recurrent cell.")
    query: Literal["current", "previous"] = option(
        default="current", help="Attend with the state after the recurrence (Luong) or before it (Bahdanau)."
    )
    feed: Literal["attentional", "context", "none"] = option(
        default="attentional",
        help="What the next step is fed of this one: tanh(W [context; state]), the context, nothing.",
    )
    readout: Literal["tanh", "linear"] = option(
        default="tanh",
        help="What a token is read from: tanh(W [context; state]), or the same without tanh, much cheaper to "
        "train where attention reads a token from several words.",
    )
    bridge: BridgeKind = option(default="copy", help="Where its first state comes from.")


@config
class LstmConfig:
    """A recurrent encoder-decoder."""

    kind: Literal["lstm"] = option(default="lstm", help="The model: a recurrent encoder-decoder.")
    embedding: int = option(default=500, help="Width of the word embeddings.", ge=1, le=16_384)
    encoder: LstmEncoderConfig = option(default=EncoderConfig, help="The encoder.")
    decoder: DecoderConfig = option(default=DecoderConfig, help="The decoder.")
    attention: AttentionConfig = option(default=SoftAttentionConfig, help="The attention mechanism.")
    dropout: float = option(default=0.3, help="Probability of dropping a unit.", ge=0, lt=1)
    embedding_dropout: float | None = option(
        default=None, help="The same for embeddings; absent: `dropout`.", ge=0, lt=1
    )
    tied: Literal["none", "target", "all"] = option(
        default="none", help="Share the target embeddings with the output layer, or with the source too."
    )
    uniform: float | None = option(
        default=0.1,
        help="Draw every parameter from (-u, u), as Malaviya et al. (2018); absent: each layer's own way.",
        gt=0,
        le=1e6,
    )


def check(config: LstmConfig, source_size: int, target_size: int) -> None:
    """Refuse parts that do not fit together.

    Args:
        config: The configuration.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.

    Raises:
        ConfigError: names the options and what came.
    """
    decoder = config.decoder
    _check_encoder(config)
    if decoder.query == "previous" and decoder.feed != "context":
        raise ConfigError(
            "model.decoder.query = 'previous' puts the context into the recurrence: "
            "set model.decoder.feed = 'context'"
        )
    if decoder.query == "previous" and decoder.readout != "tanh":
        raise ConfigError(
            "model.decoder.query = 'previous' reads a token from the state alone: "
            f"model.decoder.readout = '{decoder.readout}' would have no effect"
        )
    shapes = (config.encoder.layers, config.encoder.width), (decoder.layers, decoder.width)
    if decoder.bridge == "copy" and shapes[0] != shapes[1]:
        raise ConfigError(
            "model.decoder.bridge = 'copy' needs encoder and decoder of the same layers and width; got "
            f"{shapes[0]} and {shapes[1]}: use 'dense'"
        )
    if config.tied != "none" and config.embedding != decoder.width:
        raise ConfigError(
            f"model.tied = '{config.tied}' needs model.embedding = model.decoder.width; "
            f"got {config.embedding} and {decoder.width}"
        )
    if config.tied == "all" and source_size != target_size:
        raise ConfigError(
            "model.tied = 'all' needs one vocabulary for both sides; "
            f"got {source_size} and {target_size} words"
        )


def _check_encoder(config: LstmConfig) -> None:
    """Refuse an encoder that cannot be."""
    encoder = config.encoder
    if isinstance(encoder, ConvEncoderConfig):
        if encoder.kernel % 2 == 0:
            raise ConfigError(
                f"model.encoder.kernel must be odd, as many words on each side; got {encoder.kernel}"
            )
        if config.decoder.bridge == "copy":
            raise ConfigError(
                "model.decoder.bridge = 'copy' needs an encoder that ends in a state; with "
                "model.encoder.kind = 'conv' use 'dense', 'learned' or 'zero'"
            )
    elif encoder.direction == "both" and encoder.width % 2:
        raise ConfigError(f"model.encoder.width must be even with both directions; got {encoder.width}")
