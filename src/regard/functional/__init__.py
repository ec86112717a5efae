"""Maps from scores to distributions, pure functions with exact gradients.

Each takes scores of any shape, a boolean mask (True = may be attended) and the dimension that sums to 1.
"""

from regard.functional.likelihood import linear_log_likelihood
from regard.functional.softmax import softmax
from regard.functional.sparsemax import sparsemax

__all__ = ["linear_log_likelihood", "softmax", "sparsemax"]
