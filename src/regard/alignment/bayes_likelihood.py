"""The log-likelihood of a text, given the links of a sampler."""

import numpy as np
from numba import njit

__all__ = ["log_likelihood"]


@njit(nogil=True, cache=True)
def log_likelihood(layout, chain, alpha):
    """Return the sum of log p(f_j | the word it is linked to), with the counts of all links, in nats."""
    targets = len(chain.nulls) - 1
    total = 0.0
    for row in range(len(layout.source_lengths)):
        m = layout.source_lengths[row]
        for j in range(layout.target_lengths[row]):
            i = chain.links[layout.offsets[row] + j]
            if i < 0:
                count = chain.nulls[layout.target[layout.target_starts[row] + j]]
                total += np.log((count + alpha) / (chain.nulls[-1] + alpha * targets))
                continue
            # Word pairs that co-occur only once share slot 0, which has no count: the count is 1.
            count = max(np.float32(1), chain.counts[layout.slots[layout.cells[row] + j * m + i]])
            whole = chain.totals[layout.source[layout.source_starts[row] + i]]
            total += np.log((count + alpha) / (whole + alpha * targets))
    return total
