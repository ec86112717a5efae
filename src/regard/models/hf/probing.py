"""How a sequence-to-sequence model of transformers can be used: determined by running it on a few tokens.

No kind of model is known by name. The library's own attention interface shows which modules attend to the
source; a model without this interface is asked for its cross-attentions.
"""

from dataclasses import dataclass
from typing import Any

import torch

from regard.data.hf import convert_errors, quiet_transformers
from regard.errors import ConfigError
from regard.models.hf.layers import (
    LAYER_ATTRIBUTE,
    CrossAttention,
    CrossAttentionProbe,
    use_regard_attention,
    use_session,
)
from regard.types import Float, Int, Tensor

__all__ = ["ProbedModel", "make_cache", "probe_model", "run_decoder"]

PROBE_SOURCE, PROBE_TARGET = 5, 2
"""Numbers of tokens in a probe. They differ, so that lengths identify cross-attention."""


@dataclass(frozen=True)
class ProbedModel:
    """A model of transformers with the results of its probe.

    Attributes:
        model: The model, which uses the attention function of regard where `cross_attentions` is not empty.
        encoder_output: The class of the encoder's output.
        cross_attentions: The cross-attention modules that use the attention interface, lowest layer first.
    """

    model: Any
    encoder_output: type[Any]
    cross_attentions: tuple[CrossAttention, ...]


@torch.no_grad()
def probe_model(model: Any) -> ProbedModel:
    """Find the cross-attention modules of a model, and number them.

    Raises:
        ConfigError: if encoder and decoder cannot be run one after the other.
    """
    use_regard_attention(model)
    probe, training = CrossAttentionProbe(PROBE_SOURCE), model.training
    device = next(model.parameters()).device
    ids, decoder_ids = (
        torch.zeros(1, size, dtype=torch.long, device=device) for size in (PROBE_SOURCE, PROBE_TARGET)
    )
    model.eval()
    message = f"{type(model).__name__}: the model cannot be used for step-by-step decoding"
    with convert_errors(ConfigError, message), quiet_transformers():
        encoded = model.get_encoder()(input_ids=ids)
        with use_session(probe):
            run_decoder(ProbedModel(model, type(encoded), ()), encoded.last_hidden_state, None, decoder_ids)
    model.train(training)
    for layer, found in enumerate(probe.found):
        setattr(found.module, LAYER_ATTRIBUTE, layer)
    return ProbedModel(model, type(encoded), tuple(probe.found))


def run_decoder(
    probed: ProbedModel,
    states: Float[Tensor, "B S D"],
    mask: Int[Tensor, "B S"] | None,
    decoder_ids: Int[Tensor, "B T"],
    cache: Any = None,
    **options: Any,
) -> Any:
    """Run the decoder on the encoder's states, and return the output of transformers.

    Args:
        probed: The model.
        states: The encoder's states.
        mask: 1 at source tokens, 0 at padding. Default: no padding.
        decoder_ids: The decoder's input.
        cache: The library's cache, which is extended. Default: no cache.
        options: Further arguments of the model, such as `output_attentions`.
    """
    return probed.model(
        encoder_outputs=probed.encoder_output(last_hidden_state=states),
        attention_mask=mask,
        decoder_input_ids=decoder_ids,
        past_key_values=cache,
        use_cache=cache is not None,
        return_dict=True,
        **options,
    )


def make_cache() -> Any:
    """Return an empty cache of transformers for a decoder with cross-attention."""
    from transformers import DynamicCache, EncoderDecoderCache

    return EncoderDecoderCache(DynamicCache(), DynamicCache())
