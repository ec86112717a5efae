"""Compile and export every transformation, in a subprocess without shape checks.

The runtime shape checks would interfere with the compiler. Values and gradients must equal those of eager
execution.
"""

from typing import Any

import torch

from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
    entmax,
    entmax15,
    entmax15_loss,
    fusedmax,
    softmax,
    sparsemax,
    sparsemax_loss,
)

Tensor = torch.Tensor
BOUNDED = constrained_softmax, constrained_sparsemax


class Wrapped(torch.nn.Module):
    """Wrap a function in a module, as `torch.export` requires."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def gradients(function: Any, inputs: list[Tensor]) -> list[Tensor]:
    inputs = [one.detach().requires_grad_(one.is_floating_point()) for one in inputs]
    out = function(*inputs)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(0))
    return [out.detach(), *torch.autograd.grad(out, [one for one in inputs if one.requires_grad], upstream)]


def check(function: Any, inputs: list[Tensor], *others: list[Tensor]) -> None:
    """Compare a compiled and an exported function with eager execution.

    Other inputs have the same shapes, so that the graphs made for the first inputs apply to them.
    """
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(Wrapped(function), tuple(inputs)).module()
    for each in (inputs, *others):
        expected = gradients(function, each)
        for one, other in zip(gradients(compiled, each), expected, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True)
        torch.testing.assert_close(exported(*each), expected[0], equal_nan=True)


def nonfinite(scores: Tensor) -> Tensor:
    """Return the scores with rows that contain NaN and infinities, one of them at a masked position."""
    scores = scores.clone()
    scores[0, 0, 1], scores[0, 1, 2], scores[0, 2] = torch.nan, torch.inf, -torch.inf
    scores[1, 0, 3], scores[1, 1, 5] = -torch.inf, torch.nan
    return scores


def check_free(scores: Tensor, mask: Tensor) -> None:
    """Check the functions whose graphs do not depend on the backend."""
    alpha, other = torch.tensor(1.3), nonfinite(scores)
    check(lambda z, m: softmax(z, mask=m), [scores, mask], [other, mask])
    check(lambda z, m: fusedmax(z, 0.2, mask=m), [scores, mask], [other, mask])
    check(lambda z, a, m: entmax(z, a, mask=m), [scores, alpha, mask], [other, alpha, mask])
    lowest = torch.finfo(torch.float32).min
    for function in BOUNDED:
        # A number becomes a tensor before a backend is selected.
        check(lambda z, f=function: f(z, 0.4), [torch.tensor([0.3, 0.1, lowest, lowest])])


def check_kernels(scores: Tensor, mask: Tensor) -> None:
    """Check the functions that have kernels. Compiled code uses their reference on a CPU."""
    upper, lower = 0.3 + torch.rand(3, 1), 0.1 * torch.rand(6)
    fertility = torch.tensor([[1.0, 0.5, 1.0, 1.0, 1.0, torch.inf]] * 2)
    # Eager code falls back to the reference for extreme scores, compiled code uses it always.
    extreme = scores.clone()
    extreme[..., 2:4] = torch.finfo(torch.float32).min
    targets = torch.tensor([[1, 2, -100], [0, 5, 1]])
    for function in (sparsemax, entmax15):
        check(lambda z, m, f=function: f(z, mask=m), [scores, mask], [nonfinite(scores), mask])
    for function in BOUNDED:
        inputs = ([z, upper, mask] for z in (scores, extreme, nonfinite(scores)))
        check(lambda z, u, m, f=function: f(z, u, mask=m), *inputs)
        inputs = ([z, upper, lower] for z in (scores, extreme))
        check(lambda z, u, low, f=function: f(z, u, low, dim=-1), *inputs)
    for function in (constrained_softmax_scan, constrained_sparsemax_scan):
        inputs = ([z[:, :2], fertility] for z in (scores, nonfinite(scores)))
        check(lambda z, b, f=function: f(z, b, exhaustion=0.2), *inputs)
    for function in (sparsemax_loss, entmax15_loss):
        check(lambda z, y, f=function: f(z, y), [scores, targets])


def main() -> None:
    torch.manual_seed(0)
    scores = torch.randn(2, 3, 6)
    mask = torch.ones(2, 1, 6, dtype=torch.bool)
    mask[1, 0, 4:] = False
    check_free(scores, mask)
    check_kernels(scores, mask)


if __name__ == "__main__":
    main()
