"""Fixtures for the decoding tests: small random models of every architecture, and source sentences."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.attention.soft import SoftAttentionConfig
from regard.config import from_dict, to_dict
from regard.data.batch import PaddedSequences, collate
from regard.data.text import TextProcessor
from regard.generation.config import GenerationConfig
from regard.generation.forced import force_decode
from regard.models import TranslationModel, build_model
from regard.models.rnn.config import RnnConfig
from regard.models.rnn.model import RnnModel
from regard.models.transformer.model import TransformerConfig
from regard.text.vocabulary import EOS, SINK, UNK
from saved_models import SOURCE, TARGET, subword_side, words_side
from toys import TwoContexts

VOCAB_SIZE = 12


BPE = subword_side("a@@ b@@ c@@ a b c")
TEXT = TextProcessor(words_side(SOURCE), words_side(TARGET))


def config(**options) -> GenerationConfig:
    """Return search settings with short translations."""
    return from_dict(GenerationConfig, {"max_length_ratio": 1.0, "max_length_offset": 4, **options})


def token_lists(results) -> list[list[tuple[int, ...]]]:
    """Return the tokens of the hypotheses of each sentence."""
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results]


def build_rnn(
    seed: int = 0, vocab_size: int = VOCAB_SIZE, two: bool = False, uniform: float = 0.7, **changes
) -> RnnModel:
    """Return a small model whose random parameters are large enough for peaked distributions."""
    torch.manual_seed(seed)
    settings = {
        "embedding_size": 8,
        "encoder": {"hidden_size": 8},
        "decoder": {"hidden_size": 8},
        "init_range": uniform,
        "attention": to_dict(SoftAttentionConfig()),
    }
    for name, value in changes.items():
        # A table with `kind` selects another class, so it replaces the earlier table.
        merges = isinstance(value, dict) and "kind" not in value
        settings[name] = {**settings.get(name, {}), **value} if merges else value
    model = RnnModel(from_dict(RnnConfig, settings), VOCAB_SIZE, vocab_size)
    if two:
        model.attention = TwoContexts(8, 8)
        for parameter in model.attention.parameters():
            nn.init.uniform_(parameter, -1, 1)
    return model.eval()


def build_transformer(**changes) -> TranslationModel:
    """Return a small Transformer for the vocabularies of `TEXT`."""
    one_layer = {"num_layers": 1}
    settings = {"d_model": 8, "num_heads": 2, "encoder": one_layer, "decoder": one_layer, **changes}
    sizes = [len(side.vocabulary) for side in (TEXT.source, TEXT.target)]
    return build_model(from_dict(TransformerConfig, settings), *sizes).eval()


@pytest.fixture
def build() -> Callable[..., RnnModel]:
    return build_rnn


ARCHITECTURES = {
    "luong": {},
    "bahdanau": {
        "decoder": {"query": "previous", "input_feeding": "context"},
        "attention": {"score_function": "additive"},
    },
    "context input feeding": {"decoder": {"input_feeding": "context"}},
    "no input feeding": {"decoder": {"input_feeding": "none"}},
    "no attention": {"attention": {"kind": "none"}},
    "sparsemax": {"attention": {"normalizer": "sparsemax"}},
    "posterior-monotonic": {
        "attention": {"kind": "posterior", "coupling": "monotonic", "top_k": 3},
        "decoder": {"output_layer": "linear"},
    },
    "pointer": {
        "attention": {"kind": "pointer"},
        "decoder": {"query": "previous", "input_feeding": "context"},
    },
    "posterior update": {"two": True},
}


@pytest.fixture(params=ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def model(request: pytest.FixtureRequest) -> RnnModel:
    return build_rnn(seed=3, **request.param)


@pytest.fixture
def random_sentences() -> Callable[..., list[list[int]]]:
    """Return a function that returns random source sentences of the given lengths."""

    def sample(*lengths: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(5)
        return [torch.randint(5, VOCAB_SIZE, (n,), generator=generator).tolist() for n in lengths]

    return sample


@pytest.fixture
def sentences(random_sentences: Callable[..., list[list[int]]]) -> list[list[int]]:
    return random_sentences(4, 1, 9, 3, 4)


@pytest.fixture
def batch() -> Callable[..., PaddedSequences]:
    """Return a function that makes a batch of sentences, with `extra` additional padding columns."""

    def pad(sentences: list[list[int]], extra: int = 0) -> PaddedSequences:
        source = collate(sentences, None, range(len(sentences))).source
        return PaddedSequences(nn.functional.pad(source.tokens, (0, extra)), source.lengths)

    return pad


def score_all_translations(model, source: list[int], vocab_size: int, longest: int, scorer) -> list:
    """Return all translations of a sentence up to a length, scored by forced decoding, best first."""
    allowed = [UNK, *range(SINK + 1, vocab_size)]
    targets = [[*t, EOS] for n in range(longest + 1) for t in itertools.product(allowed, repeat=n)]
    pairs = collate([source] * len(targets), targets, range(len(targets)))
    return sorted(force_decode(model, pairs, scorer), key=lambda hypothesis: -hypothesis.score)
