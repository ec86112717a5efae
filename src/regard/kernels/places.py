"""Layout of the argument block of the normalizer kernels: indices into an array of int64.

The callers (`cpu`) fill the block and the kernels (`rows`, `scans`) read it. This module does not import
Numba.

An operand has three entries: its address, which is 0 if the operand is absent, and the numbers `every` and
`count`. Row r of the scores uses row (r // every) % count of the operand. This covers operands that broadcast
over leading, trailing or middle dimensions.
"""

__all__ = [
    "BLOCKS_PER_TICKET",
    "CONSTRAINED_SOFTMAX",
    "CONSTRAINED_SPARSEMAX",
    "ENTMAX15",
    "EXHAUSTION",
    "FAILED",
    "FERTILITY",
    "FERTILITY_GRADIENT",
    "FREE",
    "GRADIENT",
    "HEADS_PER_BUDGET",
    "IS_FLOAT64",
    "LOWER",
    "LOWER_BOUND",
    "LOWER_GRADIENT",
    "MASK",
    "NORMALIZER",
    "NORMALIZER_CODES",
    "NUM_ARGS",
    "ROWS",
    "SCORES",
    "SCORES_GRADIENT",
    "SIZE",
    "SPARSEMAX",
    "STATUS",
    "STEPS",
    "TICKET",
    "UPPER",
    "UPPER_BOUND",
    "UPPER_GRADIENT",
    "WEIGHTS",
]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
NORMALIZER_CODES = {
    "sparsemax": SPARSEMAX,
    "entmax15": ENTMAX15,
    "constrained_softmax": CONSTRAINED_SOFTMAX,
    "constrained_sparsemax": CONSTRAINED_SPARSEMAX,
}

# Status of a position: at its lower bound, strictly between its bounds, at its upper bound; 0 if masked.
LOWER, FREE, UPPER = 1, 2, 3

TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
FAILED = 1  # output: not 0 if a row has no valid result
NORMALIZER = 2  # the normalizer, a value of NORMALIZER_CODES
IS_FLOAT64 = 3  # 1 if the tensors are float64, 0 if they are float32
ROWS = 4  # number of rows; of a scan, the number of sentences
SIZE = 5  # S
STEPS = 6  # number of steps of a scan, T
EXHAUSTION = 7  # exhaustion factor of a scan, as the bits of a double
BLOCKS_PER_TICKET = 8  # number of blocks of eight rows per ticket

# Operands.
SCORES, MASK, UPPER_BOUND, LOWER_BOUND, FERTILITY, WEIGHTS, STATUS = range(9, 30, 3)
GRADIENT, SCORES_GRADIENT, UPPER_GRADIENT, LOWER_GRADIENT, FERTILITY_GRADIENT = range(30, 45, 3)

HEADS_PER_BUDGET = 45  # of a scan: number of adjacent rows that share one fertility

NUM_ARGS = 46
