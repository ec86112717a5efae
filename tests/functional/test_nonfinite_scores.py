"""Laws of rows with NaN, infinite and masked scores, for each transformation and each way to compute it.

A position is usable if it is not masked and its score is not -inf. A row is invalid if the score of a usable
position is NaN or +inf.

- The weights and the gradient of an invalid row are NaN at its usable positions.
- Those of another row are the same as without its other positions.
- They are 0 at every position that is not usable.
"""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch.func import grad, vmap

from problems import BOUNDED, FREE, SCANS
from regard.functional import entmax, entmax15_loss, entmax_loss, sparsemax_loss
from regard.kernels.backend import use_backend

Tensor = torch.Tensor
Function = Callable[..., Tensor]
NAN, INF = torch.nan, torch.inf

SCORES = torch.tensor(
    [
        [0.3, -0.2, 0.8, 0.1, 0.4],
        [0.3, NAN, 0.8, 0.1, 0.4],
        [0.3, -0.2, INF, 0.1, 0.4],
        [INF, -0.2, INF, 0.1, NAN],
        [0.3, -INF, 0.8, 0.1, -INF],
        [0.3, NAN, -INF, 0.1, 0.4],
        [0.3, INF, -INF, -INF, 0.4],
        [-INF, -INF, -INF, -INF, -INF],
        [NAN, NAN, NAN, NAN, NAN],
    ]
)
MASKS = torch.tensor(
    [
        [True, True, True, True, True],
        [True, False, True, True, True],
        [True, True, False, True, False],
        [False, False, False, False, False],
    ]
)
ROWS = SCORES.repeat_interleave(len(MASKS), 0)
MASK = MASKS.repeat(len(SCORES), 1)
USABLE = MASK & (ROWS != -INF)
INVALID = (USABLE & ~ROWS.isfinite()).any(-1)
UPSTREAM = torch.tensor([1.0, -2.0, 4.0, 0.5, 3.0])

FUNCTIONS: dict[str, Function] = {
    **FREE,
    "entmax tensor": lambda z, **options: entmax(z, torch.tensor(3.0, dtype=z.dtype), **options),
}
for name, function in BOUNDED.items():
    FUNCTIONS[name] = lambda z, function=function, **options: function(z, 0.6, **options)
    FUNCTIONS[f"{name} lower"] = lambda z, function=function, **options: function(z, 0.6, 0.1, **options)
every = pytest.mark.parametrize("name", FUNCTIONS)
backends = pytest.mark.parametrize("backend", ["auto", "reference"])


def weights_and_gradient(function: Function, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    leaf = scores.clone().requires_grad_()
    weights = function(leaf, mask=mask)
    (gradient,) = torch.autograd.grad(
        weights, leaf, UPSTREAM[: scores.shape[-1]].to(weights).expand_as(weights)
    )
    return weights.detach(), gradient


@cache
def expected(name: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return the weights and gradients that the laws require, from rows of usable positions alone."""
    weights, gradients = torch.zeros(2, *ROWS.shape, dtype=dtype)
    for i in range(len(ROWS)):
        if INVALID[i]:
            weights[i, USABLE[i]] = gradients[i, USABLE[i]] = NAN
        elif USABLE[i].any():
            leaf = ROWS[i, USABLE[i]].to(dtype).requires_grad_()
            found = FUNCTIONS[name](leaf)
            weights[i, USABLE[i]] = found.detach()
            gradients[i, USABLE[i]] = torch.autograd.grad(found, leaf, UPSTREAM[USABLE[i]].to(dtype))[0]
    return weights, gradients


def assert_equal(actual: Tensor, required: Tensor, **tolerances: float) -> None:
    torch.testing.assert_close(actual, required, equal_nan=True, **tolerances)


@every
@backends
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_and_gradients_obey_the_laws(name, backend, dtype) -> None:
    with use_backend(backend):
        found = weights_and_gradient(FUNCTIONS[name], ROWS.to(dtype), MASK)
    for actual, required in zip(found, expected(name, dtype), strict=True):
        assert_equal(actual, required)


@every
def test_vmap_and_per_row_gradients_obey_the_laws(name) -> None:
    def objective(z: Tensor, m: Tensor) -> Tensor:
        # A loss that selects the usable positions, as one of padded rows does.
        return (FUNCTIONS[name](z, mask=m) * UPSTREAM).sum()

    weights, gradients = expected(name)
    assert_equal(vmap(lambda z, m: FUNCTIONS[name](z, mask=m))(ROWS, MASK), weights)
    assert_equal(vmap(grad(objective))(ROWS, MASK), gradients)


FERTILITY = torch.tensor([0.7, 1.0, INF, 0.9, INF])


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("path", ["auto", "reference", "vmap"])
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("exhaustion", [0.0, 0.3])
def test_scan_is_nan_from_the_first_invalid_step_on(name, path, bad, exhaustion) -> None:
    scores, mask = torch.randn(3, 4, 5), torch.ones(3, 4, 5, dtype=torch.bool)
    scores[:, 3, 0] = -INF
    mask[:, 1:3, 4] = False
    scores[:, 1:3, 4] = bad
    finite = SCANS[name](scores, FERTILITY, mask=mask, exhaustion=exhaustion)
    assert finite.isfinite().all()
    scores[1, 2, 1] = bad
    required, usable = finite.clone(), mask & (scores != -INF)
    # Position 4 received no weight of the invalid step, but shares a row with others that did.
    required[1, 2:] = torch.where(usable[1, 2:], NAN, 0.0)

    def scan(z: Tensor) -> Tensor:
        if path == "vmap":
            return vmap(lambda rows, m: SCANS[name](rows, FERTILITY, mask=m, exhaustion=exhaustion))(z, mask)
        return SCANS[name](z, FERTILITY, mask=mask, exhaustion=exhaustion)

    leaf = scores.clone().requires_grad_()
    with use_backend("auto" if path == "vmap" else path):
        weights = scan(leaf)
        (gradient,) = torch.autograd.grad(weights, leaf, UPSTREAM.expand_as(weights))
    assert_equal(weights, required)
    assert (gradient[1, 2:].isnan() == usable[1, 2:]).all()
    assert (gradient[~usable] == 0).all() and gradient[[0, 2]].isfinite().all()


@pytest.mark.parametrize(
    "loss", [sparsemax_loss, entmax15_loss, lambda z, y, **k: entmax_loss(z, y, 1.3, **k)]
)
@backends
def test_loss_and_its_gradient_are_nan_in_invalid_rows_only(loss, backend) -> None:
    scores = ROWS[:: len(MASKS)][:7].clone().requires_grad_()
    invalid = INVALID[:: len(MASKS)][:7]
    with use_backend(backend):
        losses = loss(scores, torch.zeros(7, dtype=torch.long), reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert torch.equal(losses.isnan(), invalid)
    assert (gradient[~invalid].isfinite()).all()
    assert torch.equal(gradient.isnan(), invalid[:, None] & (scores != -INF))
