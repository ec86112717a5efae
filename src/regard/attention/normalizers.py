"""The registry of normalizers, which transform scores into attention weights.

A normalizer is a function of scores [..., S] and the keyword argument `mask`, a boolean tensor that
broadcasts to the scores (True = may be attended). It returns weights of the same shape that are nonnegative,
sum to 1 and are 0 at masked positions; a row without attendable positions gets zeros.
"""

import inspect
from collections.abc import Callable
from typing import Any

from regard.functional import entmax15, fusedmax, softmax, sparsemax
from regard.registry import NamedRegistry
from regard.types import Tensor

__all__ = ["NORMALIZERS", "NORMALIZER_HELP", "NormalizerFunction", "get_normalizer", "register_normalizer"]

NORMALIZER_HELP = (
    "Transformation of scores into weights: softmax (dense), entmax15, sparsemax (sparsest), or fusedmax "
    "(sparse, equal weights of neighbors)."
)


NormalizerFunction = Callable[..., Tensor]


def _contract(part: Any) -> str | None:
    """Return the reason why an object is not a normalizer, or None."""
    if not callable(part) or "mask" not in inspect.signature(part).parameters:
        return "is not a function of scores and `mask`"
    return None


NORMALIZERS: NamedRegistry[NormalizerFunction] = NamedRegistry("normalizer", contract=_contract)
register_normalizer = NORMALIZERS.register

register_normalizer("softmax")(softmax)
register_normalizer("entmax15")(entmax15)
register_normalizer("sparsemax")(sparsemax)
register_normalizer("fusedmax")(fusedmax)


def get_normalizer(name: str) -> NormalizerFunction:
    """Return the normalizer with a registered name."""
    found = NORMALIZERS.get(name)
    assert found is not None, name  # the config has checked the name
    return found
