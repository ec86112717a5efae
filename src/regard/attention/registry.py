"""The registries of attention mechanisms and of normalizers, which transform scores into attention weights.

Each mechanism registers itself with its configuration class (`register_attention`).

A normalizer is a function of scores [..., S] and the keyword argument `mask`, a boolean tensor that
broadcasts to the scores (True = may be attended). It returns weights of the same shape that are nonnegative,
sum to 1 and are 0 at masked positions; a row without attendable positions gets zeros.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from regard.attention.base import Attention
from regard.config.registry import NamedRegistry, PartConfig, Registry, subclass_of
from regard.functional import entmax15, fusedmax, softmax, sparsemax
from regard.types import Tensor

ATTENTION: Registry[type[Attention]] = Registry(
    "attention mechanism",
    default="soft",
    packages=["regard.attention"],
    contract=subclass_of(Attention),
)
register_attention = ATTENTION.register
attention_class = ATTENTION.part_of  # returns the class of the mechanism that a config describes

AttentionConfig = Annotated[PartConfig, ATTENTION]


def build_attention(
    config: AttentionConfig, query_size: int, memory_size: int, target_size: int = 0, num_heads: int = 1
) -> Attention:
    """Build the mechanism that a config describes.

    Its class is called with the first three arguments, and with the others by name if it has parameters for
    them.

    Args:
        config: The configuration of a registered mechanism.
        query_size: Width of the decoder state.
        memory_size: Width of the memory's states.
        target_size: Width of the target embeddings, for mechanisms that use the reference.
        num_heads: Number of consecutive rows of a batch that are the heads of one sentence.
    """
    mechanism = attention_class(config)
    further = {"target_size": target_size, "num_heads": num_heads}
    wanted = inspect.signature(mechanism).parameters
    options: dict[str, Any] = {name: value for name, value in further.items() if name in wanted}
    # The base class has no parameters for these arguments.
    build: Callable[..., Attention] = mechanism
    return build(config, query_size, memory_size, **options)


def with_default_score_function(config: Any, name: str) -> AttentionConfig:
    """Return the config with a score function if its mechanism has one and the config does not set it."""
    unset = getattr(config, "score_function", name) is None
    return dataclasses.replace(config, score_function=name) if unset else config


NORMALIZER_HELP = (
    "Transformation of scores into weights: softmax (dense), entmax15, sparsemax (sparsest), or "
    "fusedmax (sparse, equal weights of neighbors)."
)


NormalizerFunction = Callable[..., Tensor]


def _contract(part: Any) -> str | None:
    """Return the reason why an object is not a normalizer, or None."""
    if not callable(part) or "mask" not in inspect.signature(part).parameters:
        return "is not a function of scores and `mask`"
    return None


NORMALIZERS: NamedRegistry[NormalizerFunction] = NamedRegistry("normalizer", contract=_contract)
register_normalizer = NORMALIZERS.register

BUILT_IN_NORMALIZERS: dict[str, NormalizerFunction] = {
    "softmax": softmax,
    "entmax15": entmax15,
    "sparsemax": sparsemax,
    "fusedmax": fusedmax,
}
for _name, _function in BUILT_IN_NORMALIZERS.items():
    register_normalizer(_name)(_function)


def get_normalizer(name: str) -> NormalizerFunction:
    """Return the normalizer with a registered name."""
    normalizer = NORMALIZERS.get(name)
    assert normalizer is not None, name  # the config has checked the name
    return normalizer
