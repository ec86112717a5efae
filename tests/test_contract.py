"""The contract of attention mechanisms (`regard.attention.base`), tested for every registered mechanism."""

from typing import Literal

import pytest
import torch

from regard.attention import ScoredAttention, SoftAttentionConfig, build_attention
from regard.attention.base import Attention
from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.coverage import CoverageAttentionConfig
from regard.attention.hard import HardAttentionConfig
from regard.attention.multihead import MultiHeadAttention
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.registry import ATTENTION, BUILT_IN_NORMALIZERS
from regard.attention.soft import NoAttentionConfig
from regard.attention.variational import VariationalAttentionConfig
from regard.config import configclass
from regard.functional import softmax
from regard.testing import (
    ATTENTION_LAWS,
    check_attention,
    check_normalizer,
    example_memory,
    example_queries,
    read_step_by_step,
)
from toys import TwoContexts

QUERY = WIDTH = 6
HEADED = [
    SoftAttentionConfig(),
    SoftAttentionConfig(normalizer="sparsemax", score_function="additive"),
    ConstrainedAttentionConfig(exhaustion=0.2),
    ConstrainedAttentionConfig(normalizer="softmax", fertility_sharing="per_layer"),
    CoverageAttentionConfig(),
    PosteriorAttentionConfig(state_attention="prior", top_k=2),
    PosteriorAttentionConfig(coupling="proximity", top_k=3),
    VariationalAttentionConfig(top_k=2),
]
CONFIGS = [
    NoAttentionConfig(),
    *(
        SoftAttentionConfig(normalizer=name, score_function=scorer)
        for name in ("softmax", "entmax15", "sparsemax")
        for scorer in ("dot", "bilinear", "scaled_bilinear", "additive")
    ),
    *(
        ConstrainedAttentionConfig(normalizer=name, exhaustion=c)
        for name, c in (("softmax", 0.0), ("sparsemax", 0.0), ("sparsemax", 0.2))
    ),
    *(CoverageAttentionConfig(normalizer=name) for name in ("softmax", "entmax15", "sparsemax")),
    *(
        PosteriorAttentionConfig(state_attention=state_attention, coupling=coupling, top_k=top_k, tail="drop")
        for state_attention, coupling, top_k in (
            ("prior", "none", 2),
            ("posterior", "none", 2),
            ("posterior", "proximity", 3),
            ("posterior", "monotonic", 2),
            ("posterior", "monotonic", 7),
        )
    ),
    PosteriorAttentionConfig(coupling="hard_monotonic", top_k=0, posterior_weight=1.0),
    PosteriorAttentionConfig(state_attention="prior", top_k=1),
    PosteriorAttentionConfig(coupling="monotonic", top_k=2),
    *(VariationalAttentionConfig(top_k=top_k) for top_k in (2, 7)),
    PointerAttentionConfig(),
    HardAttentionConfig(),
    *(("heads", config) for config in HEADED),
    "toy",  # two contexts and an update from the generated token
]
every = pytest.mark.parametrize("config", CONFIGS, ids=str)


def build(config, seed: int = 1) -> Attention:
    """Return a mechanism in double precision with seeded random weights."""
    torch.manual_seed(seed)
    if config == "toy":
        return TwoContexts(QUERY, WIDTH).double()
    if isinstance(config, tuple):
        return MultiHeadAttention(config[1], QUERY, WIDTH, num_heads=2).double()
    made = build_attention(config, QUERY, WIDTH).double()
    # In training mode hard attention samples, so two runs would differ.
    return made.eval() if isinstance(config, HardAttentionConfig) else made


def test_every_registered_mechanism_is_tested() -> None:
    assert {type(config) for config in CONFIGS} - {str, tuple} == set(ATTENTION.config_classes())


@pytest.mark.parametrize("law", ATTENTION_LAWS.values(), ids=lambda law: law.__name__)
@every
def test_mechanism_follows_the_laws_of_the_interface(config, law) -> None:
    law(build(config))


@configclass
class BrokenAttentionConfig:
    kind: Literal["broken"] = "broken"


class BrokenAttention(ScoredAttention):
    """A mechanism that attends to padding."""

    def __init__(self, config: BrokenAttentionConfig, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)

    def normalize(self, scores, mask):
        return scores.softmax(-1)


def test_check_attention_names_the_law_that_a_mechanism_breaks(monkeypatch) -> None:
    check_attention(SoftAttentionConfig())
    ATTENTION.names()  # the built-in mechanisms are registered before the registry is copied
    monkeypatch.setattr(ATTENTION, "_entries", dict(ATTENTION._entries))
    ATTENTION.register("broken")(BrokenAttention)
    with pytest.raises(AssertionError, match=r"kind='broken'.*masked positions get zero"):
        check_attention(BrokenAttentionConfig())
    monkeypatch.setattr(BrokenAttention, "normalize", lambda self, scores, mask: scores[:, :, 1:])
    with pytest.raises(AssertionError, match=r"kind='broken'.*shapes: RuntimeError"):
        check_attention(BrokenAttentionConfig())


@pytest.mark.parametrize("name", BUILT_IN_NORMALIZERS)
def test_normalizers_follow_their_laws(name) -> None:
    check_normalizer(BUILT_IN_NORMALIZERS[name])


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (lambda scores, mask: softmax(scores), "masked position"),
        (lambda scores, mask: 2 * softmax(scores, mask=mask), "sum of a row"),
        (lambda scores, mask: softmax(scores, mask=mask, dim=-2), "sum of a row"),
    ],
)
def test_check_normalizer_names_the_law_that_does_not_hold(wrong, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_normalizer(wrong)


@every
def test_loaded_state_dict_gives_same_contexts(config) -> None:
    mechanism, queries = build(config), example_queries()
    other = build(config, seed=9)
    other.load_state_dict(mechanism.state_dict())
    unprepared = example_memory()
    first = read_step_by_step(mechanism, mechanism.prepare(unprepared), queries)
    second = read_step_by_step(other, other.prepare(unprepared), queries)
    assert torch.equal(first.contexts, second.contexts)
