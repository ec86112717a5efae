"""Compiled kernels: normalizers, attention and dropout; and matrix multiplication.

An operation is a public module, its front. The front documents the operation, defines it in plain PyTorch
(the reference), chooses the backend (`backend`), and contains the autograd Function. Where one PyTorch
function is the reference, the front or its caller calls that function; the forward passes of the normalizers
are defined in `regard.functional`. Each backend that has an operation has a module of the same name:

- `_numba/` for a CPU. A module has the compiled kernels, plain loops over arrays, and the functions that call
  them on tensors. A kernel processes a range of rows, so that it gives the same result on any number of
  threads (`rows.run_rows`). `thresholds` belongs to `normalizers`.
- `_triton/` for CUDA, with `thresholds` for `normalizers`.

`backend.backend_module` imports a backend when it is first used. `compilation.njit` compiles the Numba
kernels. `prefix_bleu` and the other functions of `compilation` are used by code outside this package, and
have no PyTorch version.

To add an operation:

1. Write the reference and the front, with a test against a formula or a library in float64 and a gradient
   check (`tests/kernels/test_<operation>.py`).
2. Write the Numba kernel, if it makes a training step or a search faster by more than 5 %. Test that it
   agrees with the reference for any shape, for each dtype that it supports, for masked and infinite values,
   and for 1 and 2 threads.
3. Write the Triton kernel if the operation takes a measurable part of the time on a GPU, and test it against
   the reference, which also runs without a GPU in Triton's interpreter.
4. Let the front choose the kernel for the inputs that it supports, and measure it (`benchmarks/`).
"""
