"""Small configurations of all models and mechanisms, and a batch to test them on."""

import numpy as np
import torch

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.coverage import CoverageAttentionConfig
from regard.attention.hard import HardAttentionConfig
from regard.attention.local import LocalAttentionConfig
from regard.attention.none import NoAttentionConfig
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.attention.variational import VariationalAttentionConfig
from regard.data.batch import Batch, collate
from regard.data.vocabulary import EOS
from regard.layers.feedforward import FeedForwardConfig
from regard.layers.position import LearnedConfig
from regard.models import build_model
from regard.models.base import TranslationModel
from regard.models.conv import ConvModel
from regard.models.conv_config import ConvConfig, ConvSideConfig
from regard.models.conv_encoder import ConvEncoderConfig
from regard.models.lstm import LstmModel
from regard.models.lstm_config import DecoderConfig, LstmConfig
from regard.models.recurrent import EncoderConfig
from regard.models.transformer import TransformerModel
from regard.models.transformer_config import TransformerConfig, TransformerSideConfig
from toys import TwoContexts

__all__ = [
    "CONVS",
    "LSTMS",
    "MODELS",
    "SOURCE",
    "TARGET",
    "TRANSFORMERS",
    "batch",
    "bounds",
    "build",
    "config",
    "conv",
    "decoder",
    "transformer",
]

SOURCE, TARGET = 13, 11


def config(**changes) -> LstmConfig:
    settings = {
        "embedding": 6,
        "encoder": EncoderConfig(layers=2, width=8),
        "decoder": DecoderConfig(layers=2, width=8),
        "dropout": 0.0,
        "uniform": 0.5,
    }
    return LstmConfig(**{**settings, **changes})


def decoder(**changes) -> DecoderConfig:
    return DecoderConfig(**{"layers": 2, "width": 8, **changes})


LSTMS = {
    "luong": config(),
    "bahdanau": config(
        decoder=decoder(query="previous", feed="context"), attention=SoftAttentionConfig(scorer="additive")
    ),
    "context feeding": config(decoder=decoder(feed="context"), attention=SoftAttentionConfig(scorer="dot")),
    "no input feeding": config(decoder=decoder(feed="none")),
    "sparse": config(attention=SoftAttentionConfig(map="sparsemax")),
    "fused": config(attention=SoftAttentionConfig(map="fusedmax")),
    "gru": config(encoder=EncoderConfig(width=8, cell="gru"), decoder=decoder(cell="gru")),
    "backward without attention": config(
        encoder=EncoderConfig(width=8, direction="reversed"), attention=NoAttentionConfig()
    ),
    "dense state initialization": config(
        encoder=EncoderConfig(layers=1, width=4, cell="gru"), decoder=decoder(bridge="dense")
    ),
    "learned initial state": config(decoder=decoder(bridge="learned")),
    "zero initial state": config(decoder=decoder(bridge="zero")),
    "tied": config(embedding=8, tied="target"),
    "constrained": config(attention=ConstrainedAttentionConfig()),
    "constrained softmax": config(attention=ConstrainedAttentionConfig(map="softmax")),
    "pointer": config(decoder=decoder(query="previous", feed="context"), attention=PointerAttentionConfig()),
    "prior-joint": config(attention=PosteriorAttentionConfig(passes="prior", contexts=3, beyond="drop")),
    "postr-joint": config(
        decoder=decoder(feed="context"),
        attention=PosteriorAttentionConfig(coupling="monotonic", contexts=9, beyond="drop"),
    ),
    "prior-joint, mean of the tail": config(attention=PosteriorAttentionConfig(passes="prior", contexts=2)),
    "postr-joint, mean of the tail": config(
        decoder=decoder(feed="context", readout="linear"),
        attention=PosteriorAttentionConfig(coupling="proximity", contexts=1),
    ),
    "linear output layer": config(
        decoder=decoder(readout="linear"),
        attention=PosteriorAttentionConfig(coupling="proximity", contexts=2, beyond="renormalise"),
    ),
    "hard": config(
        encoder=EncoderConfig(layers=1, width=6),
        decoder=decoder(bridge="dense"),
        attention=HardAttentionConfig(),
    ),
    "linear output layer, one context": config(decoder=decoder(readout="linear")),
    "convolutional encoder": config(
        encoder=ConvEncoderConfig(layers=2, value_layers=1, width=8, positions=LearnedConfig(length=9)),
        decoder=decoder(bridge="dense"),
    ),
    "constrained over a convolutional encoder": config(
        encoder=ConvEncoderConfig(
            layers=1, value_layers=1, width=6, kernel=5, positions=LearnedConfig(length=9)
        ),
        decoder=decoder(bridge="zero", query="previous", feed="context"),
        attention=ConstrainedAttentionConfig(scorer="additive"),
    ),
    "coverage": config(attention=CoverageAttentionConfig(map="sparsemax")),
    "variational": config(attention=VariationalAttentionConfig()),
    "local": config(decoder=decoder(feed="context"), attention=LocalAttentionConfig(window=1)),
    "local, monotonic": config(attention=LocalAttentionConfig(window=2, variant="monotonic")),
    "hard monotonic": config(
        decoder=decoder(feed="none"),
        attention=PosteriorAttentionConfig(coupling="forward", contexts=0, mix=1.0),
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
        "width": 8,
        "heads": 2,
        "feed_forward": FeedForwardConfig(width=12),
        "encoder": TransformerSideConfig(layers=1),
        "decoder": TransformerSideConfig(layers=2),
        "dropout": 0.0,
    }
    return TransformerConfig(**{**settings, **changes})


TRANSFORMERS = {
    "post-norm": transformer(),
    "pre-norm": transformer(
        norm="pre", tied="none", feed_forward=FeedForwardConfig(width=12, activation="gelu")
    ),
    "learned positions": transformer(positions=LearnedConfig(length=9)),
    "one head": transformer(heads=1),
    "localness": transformer(
        encoder=TransformerSideConfig(layers=1, local=1), decoder=TransformerSideConfig(layers=2, local=1)
    ),
    "no attention to the source": transformer(attention=NoAttentionConfig()),
    "sparsemax": transformer(attention=SoftAttentionConfig(map="sparsemax")),
    "entmax, bilinear": transformer(attention=SoftAttentionConfig(map="entmax15", scorer="general")),
    "additive": transformer(attention=SoftAttentionConfig(scorer="additive")),
    "constrained": transformer(attention=ConstrainedAttentionConfig()),
    "constrained, per-layer budget": transformer(attention=ConstrainedAttentionConfig(budget="layer")),
    "constrained softmax": transformer(attention=ConstrainedAttentionConfig(map="softmax")),
    "coverage": transformer(attention=CoverageAttentionConfig()),
    "local-m": transformer(attention=LocalAttentionConfig(variant="monotonic", window=2)),
    "local-p": transformer(attention=LocalAttentionConfig(window=2)),
    "one mechanism per layer": transformer(
        attentions=(
            SoftAttentionConfig(map="sparsemax"),
            PosteriorAttentionConfig(passes="prior", contexts=3),
        )
    ),
    "prior-joint": transformer(attention=PosteriorAttentionConfig(passes="prior", contexts=0)),
    "prox-joint": transformer(
        norm="pre", attention=PosteriorAttentionConfig(coupling="proximity", contexts=3)
    ),
    "mono-joint": transformer(attention=PosteriorAttentionConfig(coupling="monotonic", contexts=2)),
    "hard": transformer(attention=HardAttentionConfig()),
    "variational": transformer(attention=VariationalAttentionConfig(contexts=3)),
}


def conv(**changes) -> ConvConfig:
    settings = {
        "embedding": 6,
        "encoder": ConvSideConfig(layers=2, width=8),
        "decoder": ConvSideConfig(layers=2, width=8),
        "positions": LearnedConfig(length=9),
        "dropout": 0.0,
        "shared_gradient": False,  # differs from finite differences: see `test_conv`
    }
    return ConvConfig(**{**settings, **changes})


CONVS = {
    "gehring": conv(),
    "wide kernels": conv(
        encoder=ConvSideConfig(layers=1, width=4, kernel=5),
        decoder=ConvSideConfig(layers=2, width=6, kernel=4),
        tied="target",
    ),
    "kernel size 1": conv(
        encoder=ConvSideConfig(layers=1, width=4, kernel=1),
        decoder=ConvSideConfig(layers=1, width=4, kernel=1),
    ),
    "no attention to the source": conv(attention=NoAttentionConfig()),
    "sparsemax": conv(attention=SoftAttentionConfig(map="sparsemax")),
    "additive": conv(attention=SoftAttentionConfig(scorer="additive")),
    "constrained": conv(attention=ConstrainedAttentionConfig()),
    "coverage": conv(attention=CoverageAttentionConfig()),
    "local-m": conv(attention=LocalAttentionConfig(variant="monotonic", window=2)),
    "local-p": conv(attention=LocalAttentionConfig(window=2)),
    "one mechanism per layer": conv(
        attentions=(
            ConstrainedAttentionConfig(map="softmax"),
            PosteriorAttentionConfig(passes="prior", contexts=3),
        )
    ),
    "prior-joint": conv(attention=PosteriorAttentionConfig(passes="prior", contexts=0)),
    "mono-joint": conv(attention=PosteriorAttentionConfig(coupling="monotonic", contexts=2)),
    "hard": conv(attention=HardAttentionConfig()),
    "variational": conv(attention=VariationalAttentionConfig(contexts=3)),
}


def build(wiring: LstmConfig | TransformerConfig | ConvConfig) -> TranslationModel:
    torch.manual_seed(1)
    return build_model(wiring, SOURCE, TARGET).double()


def with_two_contexts(wiring: LstmConfig | TransformerConfig | ConvConfig) -> TranslationModel:
    """Return a model with a toy mechanism of two contexts that is updated with each generated token."""
    model = build(wiring)
    if isinstance(model, LstmModel):
        model.attention = TwoContexts(8, 8).double()
    elif isinstance(model, ConvModel):
        model.decoder[-1].source = TwoContexts(6, 6).double()
    else:
        assert isinstance(model, TransformerModel)
        model.decoder[-1].source = TwoContexts(8, 8).double()
    return model


MODELS = {
    **{name: lambda wiring=wiring: build(wiring) for name, wiring in LSTMS.items()},
    **{f"transformer, {name}": lambda wiring=wiring: build(wiring) for name, wiring in TRANSFORMERS.items()},
    **{f"convolutional, {name}": lambda wiring=wiring: build(wiring) for name, wiring in CONVS.items()},
    "two contexts": lambda: with_two_contexts(config()),
    "transformer, two contexts": lambda: with_two_contexts(transformer()),
    "convolutional, two contexts": lambda: with_two_contexts(conv()),
}
"""All models that the shared tests run on."""
