"""Aliases and shape letters for the types of tensors in signatures.

The letters are B batch size, T target length, S source length, H number of heads, D hidden size, K number of
context vectors per time step, V vocabulary size, and N number of target tokens in a batch without padding.
The batch dimension comes first. Masks are boolean; True marks a position that may be attended to, or a token
that is not padding.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
