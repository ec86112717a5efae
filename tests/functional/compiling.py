"""Compile and export every transformation, in a subprocess without shape checks.

The runtime shape checks would interfere with the compiler. The script prints the name of each function whose
value and gradients equal those of eager execution.
"""

import sys
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
    normmax,
    oscarmax,
    softmax,
    sparsemax,
    sparsemax_loss,
)
from regard.kernels.backend import use_backend

Tensor = torch.Tensor


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


def check(name: str, function: Any, inputs: list[Tensor]) -> None:
    expected = gradients(function, inputs)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for one, other in zip(gradients(compiled, inputs), expected, strict=True):
        torch.testing.assert_close(one, other)
    exported = torch.export.export(Wrapped(function), tuple(inputs)).module()
    torch.testing.assert_close(exported(*inputs), expected[0])
    print(name)


def main(version: str) -> None:
    torch.manual_seed(0)
    scores, upper, lower = torch.randn(2, 3, 6), 0.3 + torch.rand(3, 1), 0.1 * torch.rand(6)
    mask = torch.ones(2, 1, 6, dtype=torch.bool)
    mask[1, 0, 4:] = False
    fertility = torch.tensor([[1.0, 0.5, 1.0, 1.0, 1.0, torch.inf]] * 2)
    # The kernel must handle these extreme scores: compiled code cannot raise or fall back to the reference.
    extreme = torch.tensor([0.3, 0.1, torch.finfo(torch.float32).min, torch.finfo(torch.float32).min])
    targets = torch.tensor([[1, 2, -100], [0, 5, 1]])
    transformations = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
    bounded = {"constrained_softmax": constrained_softmax, "constrained_sparsemax": constrained_sparsemax}
    scans = {"softmax_scan": constrained_softmax_scan, "sparsemax_scan": constrained_sparsemax_scan}
    with use_backend(version):
        for name, each in transformations.items():
            check(name, lambda z, m, each=each: each(z, mask=m), [scores, mask])
        check("entmax", lambda z, a, m: entmax(z, a, mask=m), [scores, torch.tensor(1.3), mask])
        check("fusedmax", lambda z, m: fusedmax(z, 0.2, mask=m), [scores, mask])
        check("oscarmax", lambda z, m: oscarmax(z, 0.05, mask=m), [scores, mask])
        check("normmax", lambda z, m: normmax(z, 1.7, mask=m), [scores, mask])
        for name, each in bounded.items():
            check(name, lambda z, u, m, each=each: each(z, u, mask=m), [scores, upper, mask])
            check(
                f"{name} lower", lambda z, u, low, each=each: each(z, u, low, dim=-1), [scores, upper, lower]
            )
            check(f"{name} extreme", lambda z, each=each: each(z, 0.4), [extreme])
        for name, each in scans.items():
            check(name, lambda z, f, each=each: each(z, f, exhaustion=0.2), [scores[:, :2], fertility])
        for each in (sparsemax_loss, entmax15_loss):
            check(each.__name__, lambda z, y, each=each: each(z, y), [scores, targets])


if __name__ == "__main__":
    main(sys.argv[1])
