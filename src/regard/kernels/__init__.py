"""Compiled kernels: normalizers, attention, dropout, LSTM cells, softmax and matrix multiplications.

Most CPU kernels have a wrapper that takes tensors in a module of its own, so that Numba is imported only when
a kernel runs for the first time.
"""
