"""Checks of parts that plugins add: the laws of mechanisms, of normalizers and of word aligners.

    from regard.testing import check_attention
    from my_plugin import MyAttentionConfig

    def test_my_attention():
        check_attention(MyAttentionConfig(k=2))

A law that does not hold raises an `AssertionError` that names it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.alignment.base import AlignerConfig, TrainingSetup, train_direction
from regard.alignment.corpus import Corpus
from regard.attention.base import Attention, AttentionStep, Memory, stack_steps
from regard.attention.registry import AttentionConfig, build_attention
from regard.types import Float, Tensor

__all__ = [
    "ATTENTION_LAWS",
    "check_aligner",
    "check_attention",
    "check_normalizer",
    "example_memory",
    "example_queries",
    "read_step_by_step",
]

BATCH, STEPS, LENGTH, WIDTH = 3, 4, 5, 6
_INF = float("inf")


def check_attention(config: AttentionConfig, seed: int = 1) -> None:
    """Check that a mechanism follows the attention interface (`regard.attention.base`).

    The laws: shapes; masked positions get zero; a mechanism that does not observe tokens has one context;
    `read_all` equals single steps in value and gradient; a sentence gets the same result alone and in a
    batch; selecting rows commutes with a step; inference equals training; equal weights give equal results.

    Args:
        config: The configuration of a registered mechanism, with small sizes (the source has 5 positions).
        seed: The random seed of the weights and of the inputs.

    Raises:
        AssertionError: if a law does not hold; names it.
    """
    for name, law in ATTENTION_LAWS.items():
        torch.manual_seed(seed)
        # In float64, rounding errors are far below the tolerances, so small true differences are found.
        mechanism = build_attention(config, WIDTH, WIDTH).double()
        # A mechanism that samples in training does not sample in evaluation mode.
        mechanism.eval()
        try:
            law(mechanism)
        except AssertionError as error:
            raise AssertionError(f"{config}: {name}: {error}") from error
        except Exception as error:  # the code of a mechanism may raise anything
            raise AssertionError(f"{config}: {name}: {type(error).__name__}: {error}") from error


def check_normalizer(function: Callable[..., Tensor], seed: int = 1) -> None:
    """Check that a function of scores and `mask` is a normalizer (`regard.attention.registry`).

    The laws: rows are distributions; masked positions and rows without attendable positions get zero; the
    result of a row depends neither on other rows nor on masked positions; gradients are finite and zero at
    masked positions.

    Args:
        function: The function.
        seed: The random seed of the scores.

    Raises:
        AssertionError: if a law does not hold; names it.
    """
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, STEPS, LENGTH, dtype=torch.float64, generator=generator)
    mask = (
        torch.tensor([[True] * 5, [True, False, True, True, False]])[:, None].expand(2, STEPS, LENGTH).clone()
    )
    mask[0, 0] = False
    scores.requires_grad_()
    weights = function(scores, mask=mask)
    assert weights.shape == scores.shape, f"the shape is {tuple(weights.shape)}, not that of the scores"
    assert bool((weights >= 0).all()), "a weight is negative"
    assert bool((weights[~mask] == 0).all()), "a masked position has a weight other than 0"
    _check_close("the sum of a row", weights.sum(-1), mask.any(-1).double())
    for row in ((0, 1), (1, 1)):
        _check_close("a row alone", function(scores[row][mask[row]], mask=None), weights[row][mask[row]])
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert bool(gradient.isfinite().all()), "a gradient is not finite"
    assert bool((gradient[~mask] == 0).all()), "a masked position has a gradient"


def example_memory() -> Memory:
    """Return random states of sentences with 5, 3 and 1 positions, and fertilities."""
    states = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
    # The bounds of each sentence sum to 1 or more; otherwise no distribution would satisfy them.
    upper = torch.tensor([[1.2, 0.7, _INF, 2.0, 1.0], [0.5, _INF, 1.0, 1.0, 1.0], [_INF, 1.0, 1.0, 1.0, 1.0]])
    return Memory(states, mask, upper=upper)


def example_queries() -> Float[Tensor, "B T Q"]:
    """Return random queries."""
    return torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64)


def example_likelihood(contexts: Float[Tensor, "B K D"], t: int) -> Float[Tensor, "B K"]:
    """Return log-likelihoods of a token at time step `t` under each context, as a decoder would."""
    return torch.log_softmax(contexts.sum(-1) + t, dim=-1)


def read_step_by_step(mechanism: Attention, memory: Memory, queries: Float[Tensor, "B T Q"]) -> AttentionStep:
    """Return the attention steps of all queries, computed one time step at a time."""
    state = mechanism.start(memory)
    steps: list[AttentionStep] = []
    for t in range(queries.shape[1]):
        steps.append(mechanism.read(queries[:, t], memory, state))
        state = steps[-1].update(example_likelihood(steps[-1].contexts, t))
    return stack_steps(steps, state)


def comparable_tensors(step: AttentionStep) -> tuple[Tensor, ...]:
    """Return the tensors of a step; log-weights, which may be -inf, as weights."""
    return step.contexts, step.log_weights.exp(), step.weights, step.log_policy, step.penalty


def check_step_shapes(mechanism: Attention) -> None:
    """Check the shapes of the first state and step."""
    memory = mechanism.prepare(example_memory())
    state = mechanism.start(memory)
    heads = mechanism.num_heads
    step = mechanism.read(example_queries()[:, 0], memory, state)
    count = step.contexts.shape[1]
    shapes = {
        "state.weights": (state.weights, (BATCH, heads, LENGTH)),
        "state.context": (state.context, (BATCH, WIDTH)),
        "contexts": (step.contexts, (BATCH, count, WIDTH)),
        "log_weights": (step.log_weights, (BATCH, count)),
        "log_policy": (step.log_policy, (BATCH, count)),
        "weights": (step.weights, (BATCH, heads, LENGTH)),
        "penalty": (step.penalty, (BATCH,)),
    }
    for name, (tensor, expected) in shapes.items():
        assert tensor.shape == expected, f"{name} has shape {tuple(tensor.shape)}, expected {expected}"


def check_masked_positions(mechanism: Attention) -> None:
    """Check that masked positions have weight 0."""
    memory = example_memory()
    step = read_step_by_step(mechanism, mechanism.prepare(memory), example_queries())
    hidden = ~memory.mask[:, None, None].expand_as(step.weights)
    assert bool((step.weights[hidden] == 0).all()), "a masked position has a weight other than 0"


def check_single_context(mechanism: Attention) -> None:
    """Check that a mechanism that does not observe tokens has one context and keeps it."""
    if mechanism.observes_tokens:
        return
    memory = mechanism.prepare(example_memory())
    step = mechanism.read(example_queries()[:, 0], memory, mechanism.start(memory))
    assert step.contexts.shape[1] == 1, "several contexts, but observes_tokens is False"
    _check_close("update", step.update(torch.zeros(BATCH, 1)).context, step.contexts[:, 0])
    assert bool((step.log_weights == 0).all()), "the log-weight of the only context is not 0"


def check_read_all(mechanism: Attention) -> None:
    """Check that `read_all` equals single steps, in value and gradient."""
    memory, queries = example_memory(), example_queries()
    results: list[tuple[Any, ...]] = []
    for together in (False, True):
        mechanism.zero_grad()
        states = memory.states.clone().requires_grad_()
        prepared = mechanism.prepare(replace(memory, states=states))
        step = (
            mechanism.read_all(queries, prepared, mechanism.start(prepared), example_likelihood)
            if together
            else read_step_by_step(mechanism, prepared, queries)
        )
        # Both computations need the same random loss, or their gradients would not be comparable.
        generator = torch.Generator().manual_seed(3)
        loss = torch.zeros((), dtype=torch.float64)
        for tensor in comparable_tensors(step)[:3]:
            loss = loss + (tensor * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)).sum()
        if loss.requires_grad:
            loss.backward()
        results.append((*comparable_tensors(step), states.grad, *(p.grad for p in mechanism.parameters())))
    for single, whole in zip(*results, strict=True):
        _check_close("read_all and single steps", whole, single)


def check_batch(mechanism: Attention) -> None:
    """Check that a sentence gets the same result alone and in a batch."""
    memory, queries = example_memory(), example_queries()
    together = read_step_by_step(mechanism, mechanism.prepare(memory), queries)
    assert memory.upper is not None
    for i in range(BATCH):
        length = int(memory.mask[i].sum())
        rows = slice(i, i + 1)
        alone = Memory(memory.states[rows, :length], memory.mask[rows, :length], memory.upper[rows, :length])
        step = read_step_by_step(mechanism, mechanism.prepare(alone), queries[rows])
        # In a batch, a short sentence may have extra contexts with a log-weight of -inf.
        batch_finite, alone_finite = (
            log_weights.isfinite() for log_weights in (together.log_weights[i], step.log_weights[0])
        )
        _check_close("log-weights", together.log_weights[i][batch_finite], step.log_weights[0][alone_finite])
        _check_close("contexts", together.contexts[i][batch_finite], step.contexts[0][alone_finite])
        _check_close("weights", together.weights[rows, ..., :length], step.weights)


def check_select(mechanism: Attention) -> None:
    """Check that selecting rows of a batch, as beam search does, commutes with a step."""
    queries, memory = example_queries(), mechanism.prepare(example_memory())
    state = mechanism.read(queries[:, 0], memory, mechanism.start(memory)).state
    # The rows move and one is repeated, as hypotheses do in beam search.
    order = torch.tensor([2, 0, 0, 1])
    after = mechanism.read(queries[:, 1], memory, state).select(order)
    before = mechanism.read(queries[order, 1], memory.select(order), state.select(order))
    for a, b in zip(comparable_tensors(after), comparable_tensors(before), strict=True):
        _check_close("a step of selected rows", b, a)
    _check_close("the context of selected rows", before.state.context, after.state.context)


def check_inference(mechanism: Attention) -> None:
    """Check that float32 inference on selected rows equals the computation with gradients."""
    queries, order, again = example_queries(), torch.tensor([2, 0, 0, 1]), torch.tensor([0, 3, 1, 1, 2])
    rows, memory = order[again], example_memory()
    prepared = mechanism.prepare(memory)
    expected = mechanism.read(queries[rows, 0], prepared.select(rows), mechanism.start(prepared).select(rows))
    mechanism.float()
    assert memory.upper is not None
    single = Memory(memory.states.float(), memory.mask, upper=memory.upper.float())
    with torch.inference_mode():
        prepared = mechanism.prepare(single)
        state = mechanism.start(prepared).select(order).select(again)
        actual = mechanism.read(queries[rows, 0].float(), prepared.select(order).select(again), state)
    for a, b in zip(comparable_tensors(actual), comparable_tensors(expected), strict=True):
        _check_close("inference", a.double(), b, rtol=1e-4, atol=1e-5)


def _check_close(
    name: str, found: Any, expected: Any, rtol: float | None = None, atol: float | None = None
) -> None:
    if found is None and expected is None:
        return
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}")


ATTENTION_LAWS = {
    "shapes": check_step_shapes,
    "masked positions get zero": check_masked_positions,
    "one context unless tokens are observed": check_single_context,
    "read_all equals single steps": check_read_all,
    "a sentence alone equals a sentence in a batch": check_batch,
    "selection commutes with a step": check_select,
    "inference equals training": check_inference,
}
"""The laws of the attention interface, by name: functions of a mechanism in double precision."""


def check_aligner(config: AlignerConfig, seed: int = 1) -> None:
    """Check that a word aligner follows its interface (`regard.alignment.base`).

    The laws: links and posteriors have the shape and the range of the interface; a pair gets the same result
    alone and among others, also with unknown words and empty sides; the number of threads, saving and loading
    change nothing.

    Args:
        config: The configuration of a registered aligner.
        seed: The random seed of the text and of the training.

    Raises:
        AssertionError: if a law does not hold.
    """
    random = np.random.default_rng(seed)
    pairs = [
        tuple([f"{side}{word}" for word in random.integers(0, 9, random.integers(1, 8))] for side in "st")
        for _ in range(40)
    ]
    corpus = Corpus.from_tokens(pairs)
    words = corpus.source.words, corpus.target.words
    new = Corpus.from_tokens(
        [*pairs[:9], (["s1", "?"], ["t1", "!"]), ([], ["t1"]), (["s1"], [])], words, allow_empty=True
    )
    setups = (TrainingSetup(num_threads=threads, seed=seed) for threads in (1, 3))
    aligner, other = (train_direction(corpus, config, setup) for setup in setups)
    loaded = aligner.load(aligner.arrays(), config, (len(words[0]), len(words[1])))
    links, posteriors = aligner.align(new, 1), list(aligner.posteriors(new, 1))
    flat = np.concatenate([part.T.ravel() for part in posteriors])
    np.testing.assert_array_equal(aligner.cell_posteriors(new, 1), flat, f"{config}: posteriors of cells")
    assert links.dtype == np.int32 and len(links) == new.num_target_tokens, f"{config}: form of links"
    for row, (first, last) in enumerate(zip(new.target.offsets, new.target.offsets[1:], strict=False)):
        part, linked, length = posteriors[row], links[first:last], int(new.source.lengths[row])
        assert ((linked >= -1) & (linked < length)).all(), (
            f"{config}: links are positions of the source or -1"
        )
        assert part.shape == (last - first, length) and part.dtype == np.float32, (
            f"{config}: form of posteriors"
        )
        assert (part >= 0).all() and (part.sum(1) < 1 + 1e-4).all(), f"{config}: posteriors sum to at most 1"
        alone = new.subset(row, row + 1)
        np.testing.assert_array_equal(aligner.align(alone, 1), linked, f"{config}: a pair alone")
        np.testing.assert_array_equal(
            next(iter(aligner.posteriors(alone, 1))), part, f"{config}: a pair alone"
        )
    for same, threads in ((other, 3), (loaded, 1)):
        np.testing.assert_array_equal(same.align(new, threads), links, f"{config}: threads or loading")
        for one, part in zip(same.posteriors(new, threads), posteriors, strict=True):
            np.testing.assert_array_equal(one, part, f"{config}: threads or loading")
