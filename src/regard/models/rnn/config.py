"""The configuration of the recurrent encoder-decoder, with checks of its consistency."""

from typing import Annotated, Literal

from regard.attention.registry import AttentionConfig, attention_class
from regard.attention.soft import SoftAttentionConfig
from regard.config import TaggedUnion, configclass, option
from regard.errors import ConfigError
from regard.layers.position_encoding import LearnedPositionConfig
from regard.layers.recurrent import CellKind, Direction
from regard.models.base import TIE_EMBEDDINGS_HELP, check_shared_vocabulary

__all__ = [
    "ConvEncoderConfig",
    "RnnConfig",
    "RnnDecoderConfig",
    "RnnEncoderConfig",
    "StateInitKind",
    "check_rnn",
    "state_init_kind",
]

StateInitKind = Literal["copy", "dense", "learned", "zero"]


@configclass
class RnnEncoderConfig:
    """The recurrent encoder."""

    kind: Literal["rnn"] = option(default="rnn", help="A recurrent network.")
    num_layers: int = option(default=2, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(
        default=500, help="Hidden size; half of it per direction if bidirectional.", ge=2, le=16_384
    )
    direction: Direction = option(
        default="bidirectional",
        help="Direction: forward, backward (from the last word to the first) or bidirectional.",
    )
    rnn_type: CellKind = option(default="lstm", help="The recurrent cell.")


@configclass
class ConvEncoderConfig:
    """A convolutional encoder with two stacks."""

    kind: Literal["conv"] = option(
        default="conv",
        help="Two stacks of convolutions, which compute the attention keys and the values (Gehring et al., "
        "2017a).",
    )
    num_layers: int = option(default=6, help="Number of layers of the key stack.", ge=1, le=256)
    num_value_layers: int = option(default=3, help="Number of layers of the value stack.", ge=1, le=256)
    hidden_size: int = option(default=500, help="Hidden size of both stacks.", ge=1, le=16_384)
    kernel_size: int = option(
        default=3, help="Kernel size of the convolutions, in tokens; an odd number.", ge=1, le=255
    )
    position_encoding: LearnedPositionConfig = option(
        default=LearnedPositionConfig, help="Position encoding."
    )


@configclass
class RnnDecoderConfig:
    """The recurrent decoder."""

    num_layers: int = option(default=2, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(
        default=500, help="Hidden size of the states and of the attentional vector.", ge=1, le=16_384
    )
    rnn_type: CellKind = option(default="lstm", help="The recurrent cell.")
    query: Literal["current", "previous"] = option(
        default="current",
        help="Attention query: the state after the recurrence (current; Luong et al.) or before it "
        "(previous; Bahdanau et al.).",
    )
    input_feeding: Literal["attentional", "context", "none"] = option(
        default="attentional",
        help="Input feeding: the vector fed to the next step, which is tanh(W [context; state]) "
        "(attentional), the context, or none.",
    )
    output_layer: Literal["tanh", "linear"] = option(
        default="tanh",
        help="Output layer input: tanh(W [context; state]) (tanh), or W [context; state] (linear). Linear "
        "trains much faster if the attention mechanism scores each token under several source positions.",
    )
    state_init: StateInitKind | None = option(
        default=None,
        help="Initial state. copy: the encoder's final states; needs equal num_layers and hidden_size. "
        "dense: a tanh layer of these states, or of the mean of the values with encoder `conv`. learned: a "
        "learned vector. zero: zeros. Default: copy; dense with encoder `conv`, which has no final states.",
    )


@configclass
class RnnConfig:
    """A recurrent encoder-decoder."""

    kind: Literal["rnn"] = option(default="rnn", help="A recurrent encoder-decoder.")
    embedding_size: int = option(default=500, help="Size of the word embeddings.", ge=1, le=16_384)
    encoder: Annotated[RnnEncoderConfig | ConvEncoderConfig, TaggedUnion("rnn")] = option(
        default=RnnEncoderConfig, help="The encoder."
    )
    decoder: RnnDecoderConfig = option(default=RnnDecoderConfig, help="The decoder.")
    attention: AttentionConfig = option(
        default=SoftAttentionConfig, help="Attention mechanism of the decoder."
    )
    dropout: float = option(
        default=0.3,
        help="Dropout probability on the input of the output layer and of each recurrent layer except the "
        "first.",
        ge=0,
        lt=1,
    )
    embedding_dropout: float | None = option(
        default=None, help="Dropout probability on the embeddings. Default: `dropout`.", ge=0, lt=1
    )
    tie_embeddings: Literal["none", "decoder", "all"] = option(
        default="none",
        help=TIE_EMBEDDINGS_HELP,
    )
    init_range: float = option(
        default=0.1,
        help="Range u of the uniform initialization of all parameters from (-u, u) (Malaviya et al., 2018). "
        "Parameters that a plugin's class defines itself keep their values. 0: each layer uses its standard "
        "initialization.",
        ge=0,
        le=1e6,
    )


def state_init_kind(config: RnnConfig) -> StateInitKind:
    """Return the kind of the decoder's initial state, by default one that the encoder supports."""
    if config.decoder.state_init is not None:
        return config.decoder.state_init
    return "dense" if isinstance(config.encoder, ConvEncoderConfig) else "copy"


def check_rnn(config: RnnConfig, source_size: int, target_size: int) -> None:
    """Check that the parts of the configuration are compatible.

    Args:
        config: The configuration.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.

    Raises:
        ConfigError: if parts are incompatible. The message names the options and their values.
    """
    decoder = config.decoder
    _check_encoder(config)
    if decoder.query == "previous" and decoder.input_feeding != "context":
        raise ConfigError(
            "model.decoder.query = 'previous' makes the context an input of the recurrence: "
            "set model.decoder.input_feeding = 'context'"
        )
    if decoder.query == "previous" and decoder.output_layer != "tanh":
        raise ConfigError(
            "model.decoder.query = 'previous' predicts tokens from the state alone, so "
            f"model.decoder.output_layer = '{decoder.output_layer}' has no effect: set it to 'tanh'"
        )
    if decoder.query == "previous" and attention_class(config.attention).observes_tokens:
        raise ConfigError(
            "model.decoder.query = 'previous' predicts tokens from the state alone, but attention "
            f"'{config.attention.kind}' needs a prediction for each context; use 'current'"
        )
    # Copying states needs equal shapes.
    shapes = (
        (config.encoder.num_layers, config.encoder.hidden_size),
        (decoder.num_layers, decoder.hidden_size),
    )
    if state_init_kind(config) == "copy" and shapes[0] != shapes[1]:
        raise ConfigError(
            "model.decoder.state_init = 'copy' needs the same (num_layers, hidden_size) in encoder and "
            f"decoder; got {shapes[0]} and {shapes[1]}: use 'dense'"
        )
    # The output layer's input has the decoder's hidden size; if tied, its weights are the embeddings.
    if config.tie_embeddings != "none" and config.embedding_size != decoder.hidden_size:
        raise ConfigError(
            f"model.tie_embeddings = '{config.tie_embeddings}' needs model.embedding_size = "
            f"model.decoder.hidden_size; got {config.embedding_size} and {decoder.hidden_size}"
        )
    check_shared_vocabulary(config.tie_embeddings, source_size, target_size)


def _check_encoder(config: RnnConfig) -> None:
    """Check the encoder and its connection to the decoder."""
    encoder = config.encoder
    if isinstance(encoder, ConvEncoderConfig):
        if encoder.kernel_size % 2 == 0:
            raise ConfigError(
                "model.encoder.kernel_size must be odd, so that windows are centered on a word; "
                f"got {encoder.kernel_size}"
            )
        if state_init_kind(config) == "copy":
            raise ConfigError(
                "model.decoder.state_init = 'copy' needs an encoder with a final state; with "
                "model.encoder.kind = 'conv' use 'dense', 'learned' or 'zero'"
            )
    elif encoder.direction == "bidirectional" and encoder.hidden_size % 2:
        raise ConfigError(
            f"model.encoder.hidden_size must be even if model.encoder.direction = 'bidirectional'; got "
            f"{encoder.hidden_size}"
        )
