"""The contract of attention mechanisms (`regard.attention.base`), tested for every registered mechanism."""

from dataclasses import replace

import pytest
import torch

from regard.attention import Memory, SoftAttentionConfig, build_attention
from regard.attention.base import Attention, stack_steps
from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.coverage import CoverageAttentionConfig
from regard.attention.hard import HardAttentionConfig
from regard.attention.local import LocalAttentionConfig
from regard.attention.multihead import MultiHeadAttention
from regard.attention.none import NoAttentionConfig
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.registry import ATTENTION
from regard.attention.variational import VariationalAttentionConfig
from toys import TwoContexts

BATCH, STEPS, LENGTH, QUERY, WIDTH = 3, 4, 5, 6, 6
HEADED = [
    SoftAttentionConfig(),
    SoftAttentionConfig(normalizer="sparsemax", score_function="additive"),
    ConstrainedAttentionConfig(exhaustion=0.2),
    ConstrainedAttentionConfig(normalizer="softmax", fertility_sharing="per_layer"),
    CoverageAttentionConfig(),
    LocalAttentionConfig(window_size=2),
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
    *(
        LocalAttentionConfig(variant=variant, window_size=window, normalizer=name)
        for variant, window, name in (
            ("monotonic", 1, "softmax"),
            ("predictive", 2, "softmax"),
            ("predictive", 1, "sparsemax"),
        )
    ),
    PointerAttentionConfig(),
    HardAttentionConfig(baseline="learned"),
    *(("heads", config) for config in HEADED),
    "toy",  # two contexts and an update from the generated token
]
every = pytest.mark.parametrize("config", CONFIGS, ids=str)

INF = float("inf")
FERTILITY = torch.tensor([[1.2, 0.7, INF, 2.0, 1.0], [0.5, INF, 1.0, 1.0, 1.0], [INF, 1.0, 1.0, 1.0, 1.0]])


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


def memory() -> Memory:
    states = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
    return Memory(states, mask, upper=FERTILITY)


def random_queries() -> torch.Tensor:
    return torch.randn(BATCH, STEPS, QUERY, dtype=torch.float64)


def likelihood(contexts: torch.Tensor, t: int) -> torch.Tensor:
    """Return log-likelihoods for time step `t`, given each context, as a decoder would."""
    return torch.log_softmax(contexts.sum(-1) + t, dim=-1)


def step_by_step(mechanism: Attention, memory: Memory, random_queries: torch.Tensor):
    """Return the readings of all queries, computed one time step at a time."""
    state = mechanism.start(memory)
    readings = []
    for t in range(random_queries.shape[1]):
        readings.append(mechanism.read(random_queries[:, t], memory, state))
        state = readings[-1].update(likelihood(readings[-1].contexts, t))
    return stack_steps(readings, state)


def tensors(reading):
    # A masked context has a log-weight of -inf; exp makes the tensors comparable.
    return reading.contexts, reading.log_weights.exp(), reading.weights, reading.log_policy, reading.penalty


def test_every_registered_mechanism_is_tested() -> None:
    assert {type(config) for config in CONFIGS} - {str, tuple} == set(ATTENTION.config_classes())


@every
def test_shapes_follow_the_contract(config) -> None:
    mechanism = build(config)
    prepared = mechanism.prepare(memory())
    state = mechanism.start(prepared)
    assert state.weights.shape == (BATCH, mechanism.num_heads, LENGTH) and state.context.shape == (
        BATCH,
        WIDTH,
    )
    reading = mechanism.read(random_queries()[:, 0], prepared, state)
    count = reading.contexts.shape[1]
    assert reading.contexts.shape == (BATCH, count, WIDTH)
    assert reading.log_weights.shape == reading.log_policy.shape == (BATCH, count)
    assert reading.weights.shape == (BATCH, mechanism.num_heads, LENGTH) and reading.penalty.shape == (BATCH,)


@every
def test_masked_positions_get_zero(config) -> None:
    mechanism, unprepared = build(config), memory()
    reading = step_by_step(mechanism, mechanism.prepare(unprepared), random_queries())
    hidden = ~unprepared.mask[:, None, None].expand_as(reading.weights)
    assert (reading.weights[hidden] == 0).all()


@every
def test_mechanism_without_update_has_one_context_and_keeps_it(config) -> None:
    mechanism = build(config)
    prepared = mechanism.prepare(memory())
    reading = mechanism.read(random_queries()[:, 0], prepared, mechanism.start(prepared))
    if not mechanism.observes_tokens:
        assert reading.contexts.shape[1] == 1
        torch.testing.assert_close(reading.update(torch.zeros(BATCH, 1)).context, reading.contexts[:, 0])
        assert (reading.log_weights == 0).all()


@every
def test_read_all_equals_single_steps_in_value_and_gradient(config) -> None:
    mechanism, unprepared, queries = build(config), memory(), random_queries()
    results = []
    for run in (
        lambda m: step_by_step(mechanism, m, queries),
        lambda m: mechanism.read_all(queries, m, mechanism.start(m), likelihood),
    ):
        mechanism.zero_grad()
        states = unprepared.states.clone().requires_grad_()
        reading = run(mechanism.prepare(replace(unprepared, states=states)))
        goal = torch.Generator().manual_seed(3)
        loss = sum(
            (t * torch.randn(t.shape, generator=goal, dtype=t.dtype)).sum() for t in tensors(reading)[:3]
        )
        if loss.requires_grad:
            loss.backward()
        results.append((*tensors(reading), states.grad, *(p.grad for p in mechanism.parameters())))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@every
def test_batch_equals_single(config) -> None:
    mechanism, unprepared, queries = build(config), memory(), random_queries()
    together = step_by_step(mechanism, mechanism.prepare(unprepared), queries)
    for i in range(BATCH):
        length = int(unprepared.mask[i].sum())
        alone = Memory(
            unprepared.states[i : i + 1, :length],
            unprepared.mask[i : i + 1, :length],
            upper=FERTILITY[i : i + 1, :length],
        )
        reading = step_by_step(mechanism, mechanism.prepare(alone), queries[i : i + 1])
        # In a batch, a short sentence has extra contexts with a log-weight of -inf, which are not compared.
        read, own = (one.isfinite() for one in (together.log_weights[i], reading.log_weights[0]))
        torch.testing.assert_close(together.log_weights[i][read], reading.log_weights[0][own])
        torch.testing.assert_close(together.contexts[i][read], reading.contexts[0][own])
        torch.testing.assert_close(together.weights[i : i + 1, ..., :length], reading.weights)


@every
def test_select_commutes_with_read(config) -> None:
    mechanism, queries = build(config), random_queries()
    prepared = mechanism.prepare(memory())
    state = mechanism.read(queries[:, 0], prepared, mechanism.start(prepared)).state
    order = torch.tensor([2, 0, 0, 1])
    after = mechanism.read(queries[:, 1], prepared, state).select(order)
    before = mechanism.read(queries[order, 1], prepared.select(order), state.select(order))
    for a, b in zip(tensors(after), tensors(before), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(after.state.context, before.state.context)


@every
def test_inference_mode_equals_training_mode(config) -> None:
    mechanism, queries = build(config), random_queries()
    order, again = torch.tensor([2, 0, 0, 1]), torch.tensor([0, 3, 1, 1, 2])
    rows, unprepared = order[again], memory()
    prepared = mechanism.prepare(unprepared)
    expected = mechanism.read(queries[rows, 0], prepared.select(rows), mechanism.start(prepared).select(rows))
    mechanism = mechanism.float()
    assert unprepared.upper is not None
    single = Memory(unprepared.states.float(), unprepared.mask, upper=unprepared.upper.float())
    with torch.inference_mode():
        prepared = mechanism.prepare(single)
        state = mechanism.start(prepared).select(order).select(again)
        found = mechanism.read(queries[rows, 0].float(), prepared.select(order).select(again), state)
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def test_select_of_memory_indexes_all_its_tensors() -> None:
    whole = build(SoftAttentionConfig()).prepare(memory())
    first, again = torch.tensor([2, 0, 0, 1]), torch.tensor([3, 1, 0])
    with torch.no_grad():
        found, index = whole.select(first).select(again), first[again]
    assert found.base_and_index()[0] is whole and torch.equal(found.base_and_index()[1], index)
    assert torch.equal(found.states, whole.states[index]) and torch.equal(found.mask, whole.mask[index])
    assert torch.equal(found.upper, whole.upper[index]) and found.lower is None and found.key_states is None
    assert torch.equal(found.keys.weight, whole.keys.weight[index])
    assert torch.equal(found.values.weight, whole.values.weight[index])
    assert found.states is found.states  # the copy is cached


@every
def test_loaded_state_dict_gives_same_contexts(config) -> None:
    mechanism, queries = build(config), random_queries()
    other = build(config, seed=9)
    other.load_state_dict(mechanism.state_dict())
    unprepared = memory()
    first = step_by_step(mechanism, mechanism.prepare(unprepared), queries)
    second = step_by_step(other, other.prepare(unprepared), queries)
    assert torch.equal(first.contexts, second.contexts)
