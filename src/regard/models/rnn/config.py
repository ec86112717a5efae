"""The configuration of the recurrent encoder-decoder, with checks of its consistency."""

from typing import Literal

from regard.attention.registry import AttentionConfig, attention_class
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.errors import ConfigError
from regard.layers.recurrent import Direction
from regard.models.base import TIE_EMBEDDINGS_HELP


@configclass
class RnnEncoderConfig:
    """The recurrent encoder."""

    num_layers: int = option(default=2, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(
        default=500, help="Hidden size; half of it per direction if bidirectional.", ge=2, le=16_384
    )
    direction: Direction = option(
        default="bidirectional",
        help="Direction: forward, backward (from the last word to the first) or bidirectional.",
    )


@configclass
class RnnDecoderConfig:
    """The recurrent decoder."""

    num_layers: int = option(default=2, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(
        default=500, help="Hidden size of the states and of the attentional vector.", ge=1, le=16_384
    )
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
    state_init: Literal["copy", "dense", "learned"] = option(
        default="copy",
        help="Initial state. copy: the encoder's final states; needs equal num_layers and hidden_size. "
        "dense: a tanh layer of these states. learned: a learned vector.",
    )


@configclass
class RnnConfig:
    """A recurrent encoder-decoder."""

    kind: Literal["rnn"] = option(default="rnn", help="A recurrent encoder-decoder.")
    embedding_size: int = option(default=500, help="Size of the word embeddings.", ge=1, le=16_384)
    encoder: RnnEncoderConfig = option(default=RnnEncoderConfig, help="The encoder.")
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
    tie_embeddings: Literal["none", "decoder", "all"] = option(default="none", help=TIE_EMBEDDINGS_HELP)
    init_range: float = option(
        default=0.1,
        help="Range u of the uniform initialization of all parameters from (-u, u) (Malaviya et al., 2018). "
        "Parameters that a plugin's class defines itself keep their values. 0: each layer uses its standard "
        "initialization.",
        ge=0,
        le=1e6,
    )


def check_rnn(config: RnnConfig) -> None:
    """Check that the parts of the configuration are compatible.

    Raises:
        ConfigError: if parts are incompatible. The message names the options and their values.
    """
    encoder, decoder = config.encoder, config.decoder
    if encoder.direction == "bidirectional" and encoder.hidden_size % 2:
        raise ConfigError(
            f"model.encoder.hidden_size must be even if model.encoder.direction = 'bidirectional'; got "
            f"{encoder.hidden_size}"
        )
    if decoder.query == "previous" and (
        decoder.input_feeding != "context"
        or decoder.output_layer != "tanh"
        or attention_class(config.attention).observes_tokens
    ):
        raise ConfigError(
            "model.decoder.query = 'previous' makes the context an input of the recurrence and predicts "
            "tokens from the state alone. It needs model.decoder.input_feeding = 'context', output_layer = "
            "'tanh' and an attention without a prediction for each context; got "
            f"'{decoder.input_feeding}', '{decoder.output_layer}' and '{config.attention.kind}'"
        )
    # Copying states needs equal shapes.
    shapes = ((encoder.num_layers, encoder.hidden_size), (decoder.num_layers, decoder.hidden_size))
    if decoder.state_init == "copy" and shapes[0] != shapes[1]:
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
