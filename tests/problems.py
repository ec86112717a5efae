"""Hypothesis strategies that sample arguments of the transformations.

Hypothesis chooses shapes and kinds. The numbers come from a seeded generator.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from hypothesis import strategies as st

from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
    entmax,
    entmax15,
    fusedmax,
    softmax,
    sparsemax,
)

FREE = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "entmax": lambda z, **k: entmax(z, 1.8, **k),
    "fusedmax": fusedmax,
}
BOUNDED = {"constrained_softmax": constrained_softmax, "constrained_sparsemax": constrained_sparsemax}
SCANS = {"constrained_softmax": constrained_softmax_scan, "constrained_sparsemax": constrained_sparsemax_scan}
COMPILED = ["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]
Tensor = torch.Tensor


@dataclass(frozen=True)
class Problem:
    """The arguments of a transformation: scores [R, S], with optional bounds and mask of this shape."""

    scores: Tensor
    upper: Tensor | None = None
    lower: Tensor | None = None
    mask: Tensor | None = None

    def apply(self, function: Any, scores: Tensor | None = None) -> Tensor:
        bounds = [] if self.upper is None else [self.upper, self.lower]
        return function(self.scores if scores is None else scores, *bounds, mask=self.mask)

    def each(self, change: Any) -> "Problem":
        """Return the problem with `change` applied to every operand."""
        operands = ("scores", "upper", "lower", "mask")
        return replace(
            self, **{n: change(getattr(self, n)) for n in operands if getattr(self, n) is not None}
        )

    def to(self, dtype: torch.dtype) -> "Problem":
        return self.each(lambda one: one if one.dtype == torch.bool else one.to(dtype))

    @property
    def usable(self) -> Tensor:
        there = self.scores != -torch.inf
        return there if self.mask is None else there & self.mask


def random_scores(draw: Any, rows: int, size: int, generator: torch.Generator) -> Tensor:
    scores = torch.randn(rows, size, generator=generator, dtype=torch.float64)
    scores = scores * draw(st.sampled_from([0.01, 1.0, 1.0, 3.0, 1e4]))
    if draw(st.booleans()):
        scores = scores.round()  # ties
    if draw(st.sampled_from([False, False, True])):
        scores = scores.masked_fill(torch.rand(rows, size, generator=generator) < 0.2, -torch.inf)
    return scores.float().double()


@st.composite
def free_problems(draw: Any) -> Problem:
    """Sample scores and a mask. Rows may be fully masked."""
    rows, size = draw(st.integers(1, 11)), draw(st.integers(1, 19))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    scores = random_scores(draw, rows, size, generator)
    share = draw(st.sampled_from([0.3, 0.8, 1.0, None]))
    mask = None if share is None else torch.rand(rows, size, generator=generator) < share
    return Problem(scores, mask=mask)


@st.composite
def bounded_problems(draw: Any) -> Problem:
    """Sample scores, feasible bounds and a mask."""
    base = draw(free_problems())
    rows, size = base.scores.shape
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))

    def random() -> Tensor:
        return torch.rand(rows, size, generator=generator, dtype=torch.float64)

    usable = base.usable
    kind = draw(
        st.sampled_from(["tight", "wide", "fertility", "zeros", "infinite", "one free", "all at bound"])
    )
    count = usable.sum(-1, keepdim=True).clamp_min(1)
    # The kinds cover budgets near the minimum, loose bounds, whole numbers, zeros and unbounded positions.
    if kind == "tight":
        upper = random() * 4 / count
    elif kind == "wide":
        upper = random() * 3
    elif kind == "fertility":
        upper = (random() * 3).ceil()
    elif kind == "zeros":
        upper = (random() * 3).masked_fill(random() < 0.5, 0)
    elif kind == "infinite":
        upper = (random() * 0.5).masked_fill(random() < 0.3, torch.inf)
    elif kind == "one free":
        upper = (random() < 0.5).double() * 0.25
        upper[:, draw(st.integers(0, size - 1))] = 2.0
    else:
        upper = (1.0 / count).expand(rows, size).clone()
    # Scale the bounds up wherever they sum to less than 1, so that the problem is feasible.
    total = (upper * usable).masked_fill(~usable, 0).sum(-1, keepdim=True)
    upper = torch.where(total > 0, upper, 1.0)
    total = upper.masked_fill(~usable, 0).sum(-1, keepdim=True).clamp_min(1e-300)
    required = 1.0 if kind == "all at bound" else draw(st.sampled_from([1.02, 1.5]))
    upper = torch.where(total < required, upper * (required / total), upper).float().double()
    lower = None
    if draw(st.sampled_from([False, False, True])):
        lower = torch.minimum(upper, random().masked_fill(random() < 0.4, 0))
        lower_sum = lower.masked_fill(~usable, 0).sum(-1, keepdim=True)
        lower = lower * (draw(st.sampled_from([0.0, 0.5, 0.97])) / lower_sum.clamp_min(1))
        lower = lower.float().double()
    return Problem(base.scores, upper, lower, base.mask)


LARGEST = torch.finfo(torch.float32).max
MAGNITUDES = [0.0, 1.0, 1e4, 1e10, 1e16, 1e20, LARGEST / 2, LARGEST]
within_float32 = st.floats(-LARGEST, LARGEST, width=32, allow_subnormal=False)


@st.composite
def extreme_problems(draw: Any, *, bounds: bool = True, rows: int = 3) -> Problem:
    """Sample float32 scores of any magnitude, an optional mask, and optional feasible bounds."""
    size = draw(st.integers(1, 9))
    centers = st.sampled_from([sign * magnitude for magnitude in MAGNITUDES for sign in (1, -1)])
    near = st.builds(lambda center, by: min(max(center + by, -LARGEST), LARGEST), centers, st.floats(-2, 2))
    score = st.one_of(st.sampled_from([-LARGEST, LARGEST, 0.5]), near, within_float32)
    scores = torch.tensor([draw(st.lists(score, min_size=size, max_size=size)) for _ in range(rows)])
    row = st.lists(st.booleans(), min_size=size, max_size=size)
    mask = torch.tensor([draw(row) for _ in range(rows)]) if draw(st.booleans()) else None
    if not bounds:
        return Problem(scores, mask=mask)
    # Bounds are 0 or at least 2**-8. With smaller ones, rounding decides which of two ties leaves its
    # bound first.
    bound = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0, torch.inf]), st.floats(2**-8, 3, width=32))
    upper = torch.tensor([draw(st.lists(bound, min_size=size, max_size=size)) for _ in range(rows)])
    usable = torch.ones_like(upper, dtype=torch.bool) if mask is None else mask
    room = upper.clamp_max(1).masked_fill(~usable, 0).sum(-1, keepdim=True)
    upper = torch.where(room < 1, upper + draw(st.sampled_from([1.0, 1.01, 2.0])), upper)
    upper = torch.where((room < 1) & (draw(st.booleans())), upper.clamp_min(1.0 / size), upper)
    lower = None
    if draw(st.booleans()):
        share = torch.tensor([draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)) for _ in upper])
        lower = torch.minimum(upper, share).masked_fill(~usable, 0)
        lower = lower * 0.9 / lower.sum(-1, keepdim=True).clamp_min(1)
    return Problem(scores, upper, lower, mask)


def assert_distributions(problem: Problem, weights: Tensor, near: float = 2e-6) -> None:
    """Assert that rows sum to 1 within the bounds and that fully masked rows sum to 0."""
    usable = problem.usable
    torch.testing.assert_close(weights.double().sum(-1), usable.any(-1).double(), atol=near, rtol=0)
    assert (weights >= 0).all()
    assert (weights[~usable] == 0).all()
    if problem.upper is not None:
        assert (weights <= problem.upper + near)[usable].all()
    if problem.lower is not None:
        assert (weights >= problem.lower - near)[usable].all()


def chain_transitions(scores: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """Return log P(a_t = i | s_t, a_{t-1} = j) of a chain over source positions, as [B, T, i, j]."""
    logits = (scores.unsqueeze(-1) + bias).masked_fill(~mask[:, None, :, None], -torch.inf)
    # A position without any allowed successor keeps its probability.
    nowhere = torch.isneginf(logits).all(-2, keepdim=True)
    stay = torch.eye(logits.shape[-1], dtype=torch.bool)
    return torch.where(nowhere & stay, 0.0, logits).log_softmax(-2)


def enumerate_chain(start: Tensor, transitions: Tensor, emissions: Tensor, words: int) -> Tensor:
    """Return the log-likelihood of a sentence, [S], [T, S, S] and [T, S], summed over all its alignments."""
    paths = []
    for path in product(range(words), repeat=len(emissions)):
        log_p = start[path[0]] + emissions[0, path[0]]
        for t in range(1, len(emissions)):
            log_p = log_p + transitions[t, path[t], path[t - 1]] + emissions[t, path[t]]
        paths.append(log_p)
    return torch.stack(paths).logsumexp(0)
