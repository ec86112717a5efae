"""Small random models of every shape, and sentences for them."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.attention.soft import SoftAttentionConfig
from regard.config import from_dict, to_dict
from regard.data.batch import Sequences, collate
from regard.models.lstm import LstmModel
from regard.models.lstm_config import LstmConfig
from toys import TwoContexts

WORDS = 12


def _build(
    seed: int = 0, words: int = WORDS, two: bool = False, uniform: float = 0.7, **changes
) -> LstmModel:
    torch.manual_seed(seed)
    settings = {
        "embedding": 8,
        "encoder": {"width": 8},
        "decoder": {"width": 8},
        "uniform": uniform,
        "attention": to_dict(SoftAttentionConfig()),
    }
    for name, value in changes.items():
        joins = isinstance(value, dict) and "kind" not in value
        settings[name] = {**settings.get(name, {}), **value} if joins else value
    model = LstmModel(from_dict(LstmConfig, settings), WORDS, words)
    if two:
        model.attention = TwoContexts(8, 8)
        for parameter in model.attention.parameters():
            nn.init.uniform_(parameter, -1, 1)
    return model.eval()


@pytest.fixture
def build() -> Callable[..., LstmModel]:
    """A small model with random parameters large enough for it to have opinions."""
    return _build


SHAPES = {
    "luong": {},
    "bahdanau": {"decoder": {"query": "previous", "feed": "context"}, "attention": {"scorer": "additive"}},
    "context fed": {"decoder": {"feed": "context"}},
    "not fed": {"decoder": {"feed": "none"}},
    "none": {"attention": {"kind": "none"}},
    "gru": {"decoder": {"cell": "gru"}, "encoder": {"cell": "gru"}},
    "sparsemax": {"attention": {"map": "sparsemax"}},
    "postr-joint": {
        "attention": {"kind": "posterior", "coupling": "monotonic", "contexts": 3},
        "decoder": {"readout": "linear"},
    },
    "pointer": {
        "attention": {"kind": "pointer"},
        "decoder": {"query": "previous", "feed": "context"},
    },
    "observing": {"two": True},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def model(request: pytest.FixtureRequest) -> LstmModel:
    """A model of each shape."""
    return _build(seed=3, **request.param)


@pytest.fixture
def sentences() -> list[list[int]]:
    """Source sentences of many lengths."""
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randint(5, WORDS, (length,), generator=generator).tolist()
        for length in (4, 1, 9, 3, 4, 7, 2, 6, 5)
    ]


def _batch(sentences: list[list[int]], extra: int = 0) -> Sequences:
    source = collate(sentences, None, range(len(sentences))).source
    return Sequences(torch.nn.functional.pad(source.tokens, (0, extra)), source.lengths)


@pytest.fixture
def batch() -> Callable[..., Sequences]:
    """Sentences as a batch, with `extra` columns of padding."""
    return _batch
