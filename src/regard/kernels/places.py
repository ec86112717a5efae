"""The arguments of the CPU kernels: int64 in one block of memory, and where each stands in it.

Callers fill the block and kernels read it, so both take the places from here; nothing here needs Numba.

An operand takes three places: its address, 0 if it is absent, and two numbers by which row r of the scores
finds its own row, (r // every) % count: that covers an operand that broadcasts over leading, trailing or
middle dimensions.
"""

__all__ = [
    "CONSTRAINED_SOFTMAX",
    "CONSTRAINED_SPARSEMAX",
    "DECLINED",
    "ENTMAX15",
    "EXHAUSTION",
    "FERTILITY",
    "FERTILITY_GRADIENT",
    "FREE",
    "GRADIENT",
    "HEADS",
    "LENGTH",
    "LOWER",
    "LOWER_BOUND",
    "LOWER_GRADIENT",
    "MAP",
    "MAPS",
    "MASK",
    "RESTS",
    "ROWS",
    "SCORES",
    "SCORES_GRADIENT",
    "SHARE",
    "SIZE",
    "SPARSEMAX",
    "STEPS",
    "TICKET",
    "UPPER",
    "UPPER_BOUND",
    "UPPER_GRADIENT",
    "WEIGHTS",
    "WIDE",
]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
MAPS = {
    "sparsemax": SPARSEMAX,
    "entmax15": ENTMAX15,
    "constrained_softmax": CONSTRAINED_SOFTMAX,
    "constrained_sparsemax": CONSTRAINED_SPARSEMAX,
}

LOWER, FREE, UPPER = 1, 2, 3  # where a position rests; 0 where it may not be attended

TICKET = 0  # the next share of the rows
DECLINED = 1  # comes out: not 0 where the reference should answer
MAP = 2
WIDE = 3  # whether the numbers are float64, else float32
ROWS = 4
SIZE = 5  # S
STEPS = 6  # of a scan, T; its rows are sentences
EXHAUSTION = 7  # of a scan, as the bits of a double
SHARE = 8  # how many blocks of eight rows go with a ticket

# Operands.
SCORES, MASK, UPPER_BOUND, LOWER_BOUND, FERTILITY, WEIGHTS, RESTS = range(9, 30, 3)
GRADIENT, SCORES_GRADIENT, UPPER_GRADIENT, LOWER_GRADIENT, FERTILITY_GRADIENT = range(30, 45, 3)

HEADS = 45  # of a scan: so many neighbouring rows share what they receive

LENGTH = 46
