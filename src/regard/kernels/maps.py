"""The compiled maps with their gradients: eager calls, and registered operators for compilers.

An eager call goes through a plain autograd Function, which costs half of what a registered operator does;
under `torch.compile` and `torch.export` the operators `regard::map` and `regard::map_gradient` stand for it,
whose results' shapes a compiler learns from their fake versions. The gradient of the gradient is that of the
same formula in plain operations.
"""

from types import ModuleType
from typing import Any, Literal

import torch

from regard.kernels import cpu
from regard.kernels.autograd import apply
from regard.kernels.places import FREE, LOWER, UPPER
from regard.types import Tensor

__all__ = ["Kernel", "compiled", "compiled_scan", "eager", "eager_scan", "mean_of_heads"]

Kernel = Literal["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]


def _backend(version: str) -> ModuleType:
    if version == "triton":
        from regard.kernels import gpu

        return gpu
    return cpu


def pull_back(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient's formula in plain operations, with derivatives of its own.

    With s the slope of a free position (1 for sparsemax, p for softmax, sqrt p for 1.5-entmax) and m the mean
    of g over the free ones, weighted by s: s (g - m) where free, g - m at a bound.

    Returns:
        The gradient of the scores, g - m, and where positions rest on the upper and on the lower bound.
    """
    free = weights > 0 if rests is None else rests == FREE
    kept = torch.where(free, weights, 1)
    slope = {"constrained_softmax": kept, "entmax15": kept.sqrt()}.get(name, torch.ones_like(weights)) * free
    total = slope.sum(-1, keepdim=True)
    mean = (slope * gradient).sum(-1, keepdim=True) / torch.where(total > 0, total, 1)
    change = gradient - mean
    where = free.new_zeros(()) if rests is None else rests
    return slope * change, change, where == UPPER, where == LOWER


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        version: str,
        scores: Tensor,
        upper: Tensor | None,
        lower: Tensor | None,
        mask: Tensor | None,
    ) -> Tensor:
        weights, rests = _backend(version).forward(name, scores, upper, lower, mask, decline=True)
        ctx.save_for_backward(weights, rests)
        ctx.name, ctx.version = name, version
        ctx.shapes = None if upper is None else upper.shape, None if lower is None else lower.shape
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = grads
        weights, rests = ctx.saved_tensors
        _, _, _, upper, lower, _ = ctx.needs_input_grad
        if torch.is_grad_enabled():
            scores, change, high, low = pull_back(ctx.name, gradient, weights, rests)
            found = [scores, change * high if upper else None, change * low if lower else None]
        else:
            found = list(_backend(ctx.version).backward(ctx.name, gradient, weights, rests, upper, lower))
        for i, shape in enumerate(ctx.shapes, 1):
            one = found[i]
            if one is not None and shape != one.shape:
                found[i] = one.sum_to_size(shape)
        return None, None, found[0], found[1], found[2], None


def eager(
    name: Kernel,
    version: str,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """The map's weights along the last dimension.

    Raises:
        Declined: The reference should answer.
    """
    return apply(_Map, name, version, scores, upper, lower, mask)


@torch.library.custom_op("regard::map", mutates_args=())
def _map(
    name: str,
    version: str,
    scores: torch.Tensor,
    upper: torch.Tensor | None,
    lower: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    weights, rests = _backend(version).forward(name, scores, upper, lower, mask, decline=False)
    return weights, weights.new_empty(0, dtype=torch.uint8) if rests is None else rests


@_map.register_fake
def _(name: str, version: str, scores: Tensor, upper: Tensor | None, lower: Any, mask: Any) -> Any:
    weights = scores.new_empty(scores.shape)
    rests = scores.new_empty(0 if upper is None else scores.shape, dtype=torch.uint8)
    return weights, rests


@torch.library.custom_op("regard::map_gradient", mutates_args=())
def _map_gradient(
    name: str, version: str, gradient: torch.Tensor, weights: torch.Tensor, rests: torch.Tensor, bounds: int
) -> list[torch.Tensor]:
    kept = None if weights.numel() and not rests.numel() else rests
    found = _backend(version).backward(name, gradient, weights, kept, bool(bounds & 1), bool(bounds & 2))
    return [each for each in found if each is not None]


@_map_gradient.register_fake
def _(name: str, version: str, gradient: Tensor, weights: Tensor, rests: Tensor, bounds: int) -> list[Tensor]:
    return [weights.new_empty(weights.shape) for _ in range(1 + (bounds & 1) + (bounds >> 1))]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    name, version, _, upper, lower, _ = inputs
    ctx.save_for_backward(*output)
    ctx.name, ctx.version = name, version
    ctx.upper, ctx.lower = None if upper is None else upper.shape, None if lower is None else lower.shape


def _gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    weights, rests = ctx.saved_tensors
    upper, lower = ctx.needs_input_grad[3:5]
    found = list(_map_gradient(ctx.name, ctx.version, gradient, weights, rests, upper + 2 * lower))
    scores = found.pop(0)
    by_upper = found.pop(0).sum_to_size(ctx.upper) if upper else None
    by_lower = found.pop(0).sum_to_size(ctx.lower) if lower else None
    return None, None, scores, by_upper, by_lower, None


_map.register_autograd(_gradients, setup_context=_remember)


def compiled(
    name: Kernel,
    version: str,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """The same as an operator that compilers know; rows that no distribution fits are NaN."""
    return _map(name, version, scores, upper, lower, mask)[0]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        version: str,
        scores: Tensor,
        fertility: Tensor,
        exhaustion: float,
        mask: Tensor | None,
        heads: int,
    ) -> Tensor:
        backend = _backend(version)
        weights, rests = backend.scan_forward(name, scores, fertility, exhaustion, mask, heads, decline=True)
        ctx.save_for_backward(weights, rests)
        ctx.name, ctx.version, ctx.heads = name, version, heads
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, rests = ctx.saved_tensors
        if torch.is_grad_enabled():
            scores, fertility = pull_back_scan(ctx.name, grads[0], weights, rests, ctx.heads)
        else:
            backend = _backend(ctx.version)
            scores, fertility = backend.scan_backward(ctx.name, grads[0], weights, rests, ctx.heads)
        return None, None, scores, fertility, None, None, None


def mean_of_heads(x: Tensor, heads: int) -> Tensor:
    """In each row of [B, S] the mean of its `heads` neighbours."""
    if heads == 1:
        return x
    return x.view(-1, heads, x.shape[-1]).mean(1).repeat_interleave(heads, 0)


def pull_back_scan(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """The gradient of a scan in plain operations: of the scores [B, T, S] and of the fertility [B, S]."""
    loosened = torch.zeros_like(weights[:, 0])
    found: list[Tensor] = []
    for t in reversed(range(weights.shape[1])):
        received = gradient[:, t] - mean_of_heads(loosened, heads)
        scores, change, upper, _ = pull_back(name, received, weights[:, t], rests[:, t])
        loosened = loosened + change * upper
        found.append(scores)
    return torch.stack(found[::-1], 1), loosened


def eager_scan(
    name: Kernel,
    version: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads: int,
) -> Tensor:
    """A map with bounds over steps: scores [B, T, S], fertility [B, S] -> weights [B, T, S].

    Raises:
        Declined: The reference should answer.
    """
    return apply(_Scan, name, version, scores, fertility, exhaustion, mask, heads)


@torch.library.custom_op("regard::scan", mutates_args=())
def _scan(
    name: str,
    version: str,
    scores: torch.Tensor,
    fertility: torch.Tensor,
    exhaustion: float,
    mask: torch.Tensor | None,
    heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _backend(version).scan_forward(name, scores, fertility, exhaustion, mask, heads, decline=False)


@_scan.register_fake
def _(
    name: str, version: str, scores: Tensor, fertility: Tensor, exhaustion: float, mask: Any, heads: int
) -> Any:
    return scores.new_empty(scores.shape), scores.new_empty(scores.shape, dtype=torch.uint8)


@torch.library.custom_op("regard::scan_gradient", mutates_args=())
def _scan_gradient(
    name: str,
    version: str,
    gradient: torch.Tensor,
    weights: torch.Tensor,
    rests: torch.Tensor,
    heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _backend(version).scan_backward(name, gradient, weights, rests, heads)


@_scan_gradient.register_fake
def _(
    name: str, version: str, gradient: Tensor, weights: Tensor, rests: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    return weights.new_empty(weights.shape), weights.new_empty(weights.shape[0], weights.shape[2])


def _remember_scan(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output)
    ctx.name, ctx.version, ctx.heads = *inputs[:2], inputs[-1]


def _scan_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    scores, fertility = _scan_gradient(ctx.name, ctx.version, gradient, *ctx.saved_tensors, ctx.heads)
    return None, None, scores, fertility, None, None, None


_scan.register_autograd(_scan_gradients, setup_context=_remember_scan)


def compiled_scan(
    name: Kernel,
    version: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads: int,
) -> Tensor:
    """The same as an operator that compilers know; steps that no distribution fits are NaN."""
    return _scan(name, version, scores, fertility, exhaustion, mask, heads)[0]
