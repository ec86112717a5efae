"""Small configurations of all models and mechanisms, and a batch to test them on."""

import numpy as np
import torch

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.coverage import CoverageAttentionConfig
from regard.attention.hard import HardAttentionConfig
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import NoAttentionConfig, SoftAttentionConfig
from regard.attention.variational import VariationalAttentionConfig
from regard.data.batch import Batch, collate
from regard.layers.position_encoding import LearnedPositionConfig
from regard.models import build_model
from regard.models.base import TranslationModel
from regard.models.conv.model import ConvConfig, ConvModel, ConvSideConfig
from regard.models.rnn.config import RnnConfig, RnnDecoderConfig, RnnEncoderConfig
from regard.models.rnn.model import RnnModel
from regard.models.transformer.model import (
    FeedForwardConfig,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from regard.text.vocabulary import EOS
from toys import TwoContexts

SOURCE, TARGET = 13, 11


def config(**changes) -> RnnConfig:
    settings = {
        "embedding_size": 6,
        "encoder": RnnEncoderConfig(num_layers=2, hidden_size=8),
        "decoder": RnnDecoderConfig(num_layers=2, hidden_size=8),
        "dropout": 0.0,
        "init_range": 0.5,
    }
    return RnnConfig(**{**settings, **changes})


def decoder(**changes) -> RnnDecoderConfig:
    return RnnDecoderConfig(**{"num_layers": 2, "hidden_size": 8, **changes})


LSTMS = {
    "luong": config(),
    "bahdanau": config(
        decoder=decoder(query="previous", input_feeding="context"),
        attention=SoftAttentionConfig(score_function="additive"),
    ),
    "context feeding": config(
        decoder=decoder(input_feeding="context"), attention=SoftAttentionConfig(score_function="dot")
    ),
    "no input feeding": config(decoder=decoder(input_feeding="none")),
    "sparse": config(attention=SoftAttentionConfig(normalizer="sparsemax")),
    "fused": config(attention=SoftAttentionConfig(normalizer="fusedmax")),
    "backward without attention": config(
        encoder=RnnEncoderConfig(hidden_size=8, direction="backward"), attention=NoAttentionConfig()
    ),
    "dense state initialization": config(
        encoder=RnnEncoderConfig(num_layers=1, hidden_size=4), decoder=decoder(state_init="dense")
    ),
    "learned initial state": config(decoder=decoder(state_init="learned")),
    "constrained, additive": config(
        decoder=decoder(query="previous", input_feeding="context"),
        attention=ConstrainedAttentionConfig(score_function="additive"),
    ),
    "tied": config(embedding_size=8, tie_embeddings="decoder"),
    "constrained": config(attention=ConstrainedAttentionConfig()),
    "constrained softmax": config(attention=ConstrainedAttentionConfig(normalizer="softmax")),
    "pointer": config(
        decoder=decoder(query="previous", input_feeding="context"), attention=PointerAttentionConfig()
    ),
    "prior-joint": config(attention=PosteriorAttentionConfig(state_attention="prior", top_k=3, tail="drop")),
    "postr-joint": config(
        decoder=decoder(input_feeding="context"),
        attention=PosteriorAttentionConfig(coupling="monotonic", top_k=9, tail="drop"),
    ),
    "prior-joint, mean of the tail": config(
        attention=PosteriorAttentionConfig(state_attention="prior", top_k=2)
    ),
    "postr-joint, mean of the tail": config(
        decoder=decoder(input_feeding="context", output_layer="linear"),
        attention=PosteriorAttentionConfig(coupling="proximity", top_k=1),
    ),
    "linear output layer": config(
        decoder=decoder(output_layer="linear"),
        attention=PosteriorAttentionConfig(coupling="proximity", top_k=2, tail="renormalize"),
    ),
    "hard": config(
        encoder=RnnEncoderConfig(num_layers=1, hidden_size=6),
        decoder=decoder(state_init="dense"),
        attention=HardAttentionConfig(),
    ),
    "linear output layer, one context": config(decoder=decoder(output_layer="linear")),
    "coverage": config(attention=CoverageAttentionConfig(normalizer="sparsemax")),
    "variational": config(attention=VariationalAttentionConfig()),
    "hard monotonic": config(
        decoder=decoder(input_feeding="none"),
        attention=PosteriorAttentionConfig(coupling="hard_monotonic", top_k=0, posterior_weight=1.0),
    ),
}


def batch(lengths=((5, 4), (2, 6), (1, 1)), seed=0) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def words(n: int, size: int) -> list[int]:
        return torch.randint(5, size, (n,), generator=generator).tolist()

    sources = [words(s, SOURCE) for s, _ in lengths]
    targets = [[*words(t, TARGET), EOS] for _, t in lengths]
    return collate(sources, targets, list(range(len(lengths))), [bounds(s) for s, _ in lengths])


def bounds(length: int) -> np.ndarray:
    """Return fertilities for mechanisms that use them. The last word is unbounded."""
    return np.array([0.6 + 0.3 * i for i in range(length - 1)] + [np.inf], dtype=np.float32)


def transformer(**changes) -> TransformerConfig:
    settings = {
        "d_model": 8,
        "num_heads": 2,
        "feed_forward": FeedForwardConfig(ffn_size=12),
        "encoder": TransformerEncoderConfig(num_layers=1),
        "decoder": TransformerDecoderConfig(num_layers=2),
        "dropout": 0.0,
    }
    return TransformerConfig(**{**settings, **changes})


SHARED = {
    "no attention to the source": NoAttentionConfig(),
    "sparsemax": SoftAttentionConfig(normalizer="sparsemax"),
    "additive": SoftAttentionConfig(score_function="additive"),
    "constrained": ConstrainedAttentionConfig(),
    "coverage": CoverageAttentionConfig(),
    "prior-joint": PosteriorAttentionConfig(state_attention="prior", top_k=0),
    "mono-joint": PosteriorAttentionConfig(coupling="monotonic", top_k=2),
    "hard": HardAttentionConfig(),
    "variational": VariationalAttentionConfig(top_k=3),
}
"""Mechanisms of models with a stack of decoder layers."""

TRANSFORMERS = {
    **{name: transformer(attention=attention) for name, attention in SHARED.items()},
    "post-norm": transformer(),
    "pre-norm": transformer(norm_position="pre", tie_embeddings="none"),
    "learned positions": transformer(position_encoding=LearnedPositionConfig(max_length=9)),
    "one head": transformer(num_heads=1),
    "localness": transformer(encoder=TransformerEncoderConfig(num_layers=1, num_localness_layers=1)),
    "constrained, per-layer budget": transformer(
        attention=ConstrainedAttentionConfig(fertility_sharing="per_layer")
    ),
    "constrained softmax": transformer(attention=ConstrainedAttentionConfig(normalizer="softmax")),
    "one mechanism per layer": transformer(
        layer_attention=(
            SoftAttentionConfig(normalizer="sparsemax"),
            PosteriorAttentionConfig(state_attention="prior", top_k=3),
        )
    ),
}


def conv(**changes) -> ConvConfig:
    settings = {
        "embedding_size": 6,
        "encoder": ConvSideConfig(num_layers=2, hidden_size=8),
        "decoder": ConvSideConfig(num_layers=2, hidden_size=8),
        "position_encoding": LearnedPositionConfig(max_length=9),
        "dropout": 0.0,
        "scale_encoder_gradient": False,  # differs from finite differences: see `test_conv`
    }
    return ConvConfig(**{**settings, **changes})


CONVS = {
    **{name: conv(attention=attention) for name, attention in SHARED.items()},
    "gehring": conv(),
    "wide kernels": conv(
        encoder=ConvSideConfig(num_layers=1, hidden_size=4, kernel_size=5),
        decoder=ConvSideConfig(num_layers=2, hidden_size=6, kernel_size=4),
        tie_embeddings="decoder",
    ),
    "kernel size 1": conv(
        encoder=ConvSideConfig(num_layers=1, hidden_size=4, kernel_size=1),
        decoder=ConvSideConfig(num_layers=1, hidden_size=4, kernel_size=1),
    ),
    "one mechanism per layer": conv(
        layer_attention=(
            ConstrainedAttentionConfig(normalizer="softmax"),
            PosteriorAttentionConfig(state_attention="prior", top_k=3),
        )
    ),
}


def build(wiring: RnnConfig | TransformerConfig | ConvConfig) -> TranslationModel:
    torch.manual_seed(1)
    return build_model(wiring, SOURCE, TARGET).double()


def with_two_contexts(wiring: RnnConfig | TransformerConfig | ConvConfig) -> TranslationModel:
    """Return a model with a toy mechanism of two contexts that is updated with each generated token."""
    model = build(wiring)
    width = 6 if isinstance(model, ConvModel) else 8
    mechanism = TwoContexts(width, width).double()
    if isinstance(model, RnnModel):
        model.attention = mechanism
    else:
        model.decoder[-1].cross_attention = mechanism
    return model


FAMILIES = {"rnn": config, "transformer": transformer, "conv": conv}
"""The function of each family that returns a small configuration with the given changes."""

MODELS = {
    **{name: lambda wiring=wiring: build(wiring) for name, wiring in LSTMS.items()},
    **{f"transformer, {name}": lambda wiring=wiring: build(wiring) for name, wiring in TRANSFORMERS.items()},
    **{f"convolutional, {name}": lambda wiring=wiring: build(wiring) for name, wiring in CONVS.items()},
    "two contexts": lambda: with_two_contexts(config()),
    "transformer, two contexts": lambda: with_two_contexts(transformer()),
    "convolutional, two contexts": lambda: with_two_contexts(conv()),
}
"""All models that the shared tests run on."""
