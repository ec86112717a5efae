"""Small random models of every shape, and sentences for them."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reading, State
from regard.attention.none import NoAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import from_dict, to_dict
from regard.data.batch import Sequences, collate
from regard.models.lstm import LstmConfig, LstmModel

WORDS = 12


@dataclass(frozen=True)
class TwoReading(Reading):
    """Two contexts; the token tells which of them was right."""

    both: torch.Tensor

    def observe(self, log_likelihood: torch.Tensor) -> State:
        posterior = torch.softmax(self.log_weights + log_likelihood, dim=-1)
        weights = torch.einsum("bk,bkhs->bhs", posterior, self.both)
        context = torch.einsum("bk,bkd->bd", posterior, self.contexts)
        return State(weights, context)


class TwoContexts(Attention):
    """A toy mechanism that observes: a flat and a sharp look at the source, and Bayes' rule between them."""

    observes = True

    def __init__(self, query: int, width: int) -> None:
        super().__init__()
        self.scores = nn.Linear(query, width)
        self.prior = nn.Linear(query, 2)

    def read(self, query: torch.Tensor, memory: Memory, state: State) -> Reading:
        scores = torch.einsum("bd,bsd->bs", self.scores(query), memory.states) + state.weights[:, 0]
        hidden = scores.masked_fill(~memory.mask, -1e9)
        both = torch.stack([torch.softmax(hidden, -1), torch.softmax(5 * hidden, -1)], dim=1)
        contexts = both @ memory.states
        log_weights = torch.log_softmax(self.prior(query), dim=-1)
        weights = torch.einsum("bk,bks->bs", log_weights.exp(), both).unsqueeze(1)
        zeros = torch.zeros_like(log_weights)
        return TwoReading(contexts, log_weights, weights, zeros, zeros[:, 0], state, both.unsqueeze(2))


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
        settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    if settings["attention"].get("kind") == "none":
        settings["attention"] = to_dict(NoAttentionConfig())
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
