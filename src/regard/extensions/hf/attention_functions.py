"""Attention functions of transformers with other transformations than softmax: the public module `regard.hf`.

A model of transformers calls the function that `attn_implementation` names with the queries, keys and values
of all heads and a mask. Ours compute

    weights = dropout(normalizer(scaling Q K^T + bias)),   context = weights V

for a normalizer of `regard.functional`, directly on scores [B, H, T, S]. This is the plain ("eager")
attention of the library with another transformation, except for masks: a masked position gets exactly 0
instead of a very low score, and a query without attendable positions gets the context 0.

A model passes no bounds to its attention. Those of constrained attention are therefore given around its call,
by a `with` block: `attention_bounds` for every single distribution, or `attention_budget` for all time steps
together (Malaviya et al., 2018).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.attention.registry import BUILT_IN_NORMALIZERS
from regard.errors import UsageError
from regard.extensions.hf.attention_session import Normalize, normalized_attention
from regard.extensions.hf.files import import_transformers
from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
    softmax,
    sparsemax,
)
from regard.functional.scans import remaining_bound
from regard.types import Bool, Float, Tensor

__all__ = ["ATTENTION_NAMES", "attention_bounds", "attention_budget", "register_attention_function"]

CONSTRAINED = {
    "constrained_softmax": (softmax, constrained_softmax, constrained_softmax_scan),
    "constrained_sparsemax": (sparsemax, constrained_sparsemax, constrained_sparsemax_scan),
}
"""For each name: the transformation without bounds, with bounds, and over all time steps."""


@dataclass(frozen=True)
class _Bounds:
    """Bounds of every distribution, which broadcast to [B, H, T, S]."""

    modules: frozenset[nn.Module] | None
    upper: Tensor | float
    lower: Tensor | float | None


@dataclass(frozen=True)
class _Budget:
    """A budget over the time steps, and the attention that was received so far.

    Attributes:
        modules: The bounded attention modules; None for all.
        fertility: The maximum total attention of each key: a number or [B, S].
        exhaustion: c, see `attention_budget`.
        target_mask: [B, T], True at real queries, or None.
        received: For each module, [B, H, S], the attention that its keys received in earlier calls.
    """

    modules: frozenset[nn.Module] | None
    fertility: Tensor | float
    exhaustion: float
    target_mask: Tensor | None
    received: dict[nn.Module, Tensor] = field(default_factory=dict)


# transformers offers no way to pass objects to the attention function.
_CURRENT: ContextVar[_Bounds | _Budget | None] = ContextVar("regard_attention_bounds", default=None)


@contextmanager
def _use(bounds: _Bounds | _Budget) -> Iterator[None]:
    token = _CURRENT.set(bounds)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def attention_bounds(
    upper: Float[Tensor, "..."] | float | int = torch.inf,
    lower: Float[Tensor, "..."] | float | int | None = None,
    modules: Iterable[nn.Module] | None = None,
) -> Iterator[None]:
    """Return a context manager that bounds every attention weight of a model.

    Args:
        upper: Maximum weight: a number, or a tensor that broadcasts to [B, H, T, S] (batch, heads, queries,
            keys), for example [B, 1, 1, S].
        lower: Minimum weight, likewise. None means 0.
        modules: The attention modules with bounds; the others have none. Default: None, all modules of a
            model whose `attn_implementation` is `constrained_softmax` or `constrained_sparsemax`.

    Raises:
        InfeasibleBoundsError: In the call of the model, if no distribution satisfies the bounds of a row.
    """
    with _use(_Bounds(None if modules is None else frozenset(modules), upper, lower)):
        yield


@contextmanager
def attention_budget(
    fertility: Float[Tensor, "B S"] | float | int,
    exhaustion: float = 0.0,
    modules: Iterable[nn.Module] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Iterator[None]:
    """Return a context manager that bounds the total attention that each key receives from all queries.

    The queries of a call are consecutive time steps. Query t has the bounds max(0, f - beta_{t-1}), where f
    is the fertility and beta the attention received so far (Malaviya et al. (2018), Eq. 5), separately
    for each head. One block is one batch of target sequences: a second call within it continues with the
    next time steps, as greedy search and sampling with a cache do. Beam search reorders the rows of a batch
    in the cache but not here; translate with `regard.load` instead.

    Args:
        fertility: f, at least 0: a number, or one value per key; infinite for a key without bound.
        exhaustion: c, at least 0; c times the remaining fertility is added to each score.
        modules: The attention modules with a budget, usually those of cross-attention; the others have none.
            Default: None, all modules.
        target_mask: True at real queries. Padding attends to nothing and uses no budget. Default: None, all
            queries are real.

    Raises:
        InfeasibleBoundsError: In the call of the model, if the remaining budget of a step is less than 1.
    """
    with _use(_Budget(None if modules is None else frozenset(modules), fertility, exhaustion, target_mask)):
        yield


def constrained_weights(
    name: str, module: nn.Module, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "B H T S"]:
    """Return the attention weights of a module under the bounds of the current `with` block.

    Raises:
        UsageError: There is no such block.
    """
    unbounded, bounded, scan = CONSTRAINED[name]
    current = _CURRENT.get()
    if current is None:
        raise UsageError(
            f"attn_implementation = {name!r} needs bounds: call the model within `with "
            "regard.hf.attention_bounds(upper=...):` or `with regard.hf.attention_budget(fertility=...):`"
        )
    if current.modules is not None and module not in current.modules:
        return unbounded(scores, mask=mask)
    if isinstance(current, _Bounds):
        return bounded(scores, current.upper, current.lower, mask=mask)
    return _spend(current, scan, module, scores, mask)


def _spend(
    budget: _Budget, scan: Callable[..., Tensor], module: nn.Module, scores: Tensor, mask: Tensor | None
) -> Float[Tensor, "B H T S"]:
    """Return the weights of consecutive time steps, and record the attention that was received."""
    batch, heads, steps, size = scores.shape
    left = torch.as_tensor(budget.fertility, device=scores.device).to(
        torch.promote_types(scores.dtype, torch.float32)
    )
    left = left.expand(batch, size).unsqueeze(1).expand(batch, heads, size)  # (B, H, S)
    received = budget.received.get(module)
    if received is not None:
        # The keys of self-attention grow with the target; new ones have received nothing.
        received = torch.nn.functional.pad(received, (0, size - received.shape[-1]))
        left = remaining_bound(left, received)
    if budget.target_mask is not None:
        real = budget.target_mask[:, None, :, None]  # (B, 1, T, 1)
        mask = real.expand(batch, 1, steps, size) if mask is None else mask & real
    if mask is not None:
        mask = mask.expand(batch, heads, steps, size)
    weights = scan(scores, left, exhaustion=budget.exhaustion, mask=mask)
    spent = weights.to(left.dtype).sum(-2)
    budget.received[module] = spent if received is None else received + spent
    return weights


_NORMALIZERS = {name: each for name, each in BUILT_IN_NORMALIZERS.items() if name != "softmax"}

ATTENTION_NAMES = (*_NORMALIZERS, *CONSTRAINED)
"""The values of `attn_implementation` that `import regard.hf` registers."""


def register_attention_function(name: str, normalizer: Callable[..., Tensor]) -> None:
    """Register a transformation with transformers, as a value of `attn_implementation`.

    Args:
        name: The value.
        normalizer: A function of scores [..., S] and the keyword argument `mask`, such as
            `functools.partial(regard.functional.entmax, alpha=1.3)`.

    Raises:
        UsageError: transformers is not installed.
    """
    _register(name, lambda module, scores, mask: normalizer(scores, mask=mask))


def _register(name: str, normalize: Normalize) -> None:
    transformers = import_transformers()
    transformers.AttentionInterface.register(name, partial(normalized_attention, normalize))
    transformers.AttentionMaskInterface.register(name, _boolean_mask)


def _boolean_mask(*args: Any, **kwargs: Any) -> Bool[Tensor, "B 1 T S"] | None:
    """Return the mask of `sdpa_mask`, always explicit for causal attention."""
    from transformers.masking_utils import sdpa_mask

    # Otherwise no mask would mean causal attention in some models and unmasked attention in others.
    return sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False})


for constrained_name in CONSTRAINED:
    _register(constrained_name, partial(constrained_weights, constrained_name))
for unconstrained_name, unconstrained in _NORMALIZERS.items():
    register_attention_function(unconstrained_name, unconstrained)
