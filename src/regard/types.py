"""Shape letters and aliases used in signatures.

B batch, T target length, S source length, H heads, D width, K contexts, V vocabulary, N target tokens
of a batch without padding. Batch first. Masks are boolean, True = may be attended (or: is a real token).
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
