"""The CPU kernels, compiled by Numba; imported only when a kernel runs for the first time."""
