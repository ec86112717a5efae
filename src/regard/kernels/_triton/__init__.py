"""The GPU kernels, compiled by Triton; imported only when a kernel runs for the first time."""
