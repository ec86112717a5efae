"""The configuration of the recurrent encoder-decoder, and what must fit together in it."""

from typing import Literal

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import config, option
from regard.errors import ConfigError
from regard.layers.cells import CellKind
from regard.models.recurrent import BridgeKind, EncoderConfig

__all__ = ["DecoderConfig", "LstmConfig", "check"]


@config
class DecoderConfig:
    """The recurrent decoder."""

    layers: int = option(2, "How many layers.", ge=1)
    width: int = option(500, "Width of its states and of the attentional vector.", ge=1)
    cell: CellKind = option("lstm", "The recurrent cell.")
    query: Literal["current", "previous"] = option(
        "current", "Attend with the state after the recurrence (Luong) or before it (Bahdanau)."
    )
    feed: Literal["attentional", "context", "none"] = option(
        "attentional",
        "What attention found, as the next step is fed it: tanh(W [context; state]), the context, nothing.",
    )
    bridge: BridgeKind = option("copy", "Where its first state comes from.")


@config
class LstmConfig:
    """A recurrent encoder-decoder."""

    kind: Literal["lstm"] = option("lstm", "The model: a recurrent encoder-decoder.")
    embedding: int = option(500, "Width of the word embeddings.", ge=1)
    encoder: EncoderConfig = option(EncoderConfig, "The encoder.")
    decoder: DecoderConfig = option(DecoderConfig, "The decoder.")
    attention: AttentionConfig = option(SoftAttentionConfig, "The attention mechanism.")
    dropout: float = option(0.3, "Probability of dropping a unit.", ge=0, lt=1)
    tied: Literal["none", "target", "all"] = option(
        "none", "Share the target embeddings with the output layer, or with the source too."
    )
    uniform: float | None = option(
        0.1,
        "Draw every parameter from (-u, u), as Malaviya et al. (2018); absent: each layer's own way.",
        gt=0,
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
    if config.encoder.direction == "both" and config.encoder.width % 2:
        raise ConfigError(
            f"model.encoder.width must be even with both directions; got {config.encoder.width}"
        )
    if decoder.query == "previous" and decoder.feed != "context":
        raise ConfigError(
            "model.decoder.query = 'previous' puts the context into the recurrence: "
            "set model.decoder.feed = 'context'"
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
