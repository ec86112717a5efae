"""Matrix multiplications on a CPU: PyTorch's default compared with `regard.kernels.matmul`.

    python benchmarks/matmul.py

`regard.kernels.matmul` uses oneDNN for float32 and computes bfloat16 in float32. The script prints the
GFLOP/s of both (medians of alternating runs) at the shapes of a time step of a recurrent model, of its
projections and of their gradients, and the maximum deviation of each from float64.
"""

import statistics
import time
from collections.abc import Callable

import torch

from regard.kernels import matmul as kernels

SHAPES = [
    (64, 500, 2000),
    (64, 2000, 500),
    (160, 500, 2000),
    (896, 500, 5900),
    (896, 5900, 500),
    (500, 896, 2000),
]
ROUNDS = 9


def seconds(call: Callable[[], torch.Tensor], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def compare(dtype: torch.dtype, other: str) -> None:
    """Measure all shapes in one precision and print one line per shape."""
    print(f"\n{dtype}: PyTorch's default compared with {other}")
    print(f"{'shape':>18}  {'PyTorch':>8}  {'other':>8}  GFLOP/s   ratio   deviation from float64 of both")
    for rows, inner, columns in SHAPES:
        x, matrix = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
        work = 2 * rows * inner * columns
        repeats = max(3, int(4e9 / work))  # about 4 GFLOP per measurement
        ways = {"torch": lambda x=x, m=matrix: x @ m, "other": lambda x=x, m=matrix: kernels.matmul(x, m)}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for call in ways.values():
            seconds(call, 3)
        for _ in range(ROUNDS):
            for name, call in ways.items():
                times[name].append(seconds(call, repeats))
        rates = {name: work / statistics.median(found) / 1e9 for name, found in times.items()}
        exact = x.double() @ matrix.double()
        errors = {name: float((call().double() - exact).abs().max()) for name, call in ways.items()}
        print(
            f"{f'{rows} x {inner} x {columns}':>18}  {rates['torch']:8.0f}  {rates['other']:8.0f}           "
            f"{rates['other'] / rates['torch']:5.2f}   {errors['torch']:.1e}, {errors['other']:.1e}"
        )


def main() -> None:
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    # The alternatives are switched on here, because the library uses each only on some processors.
    own, kernels._LINEAR = kernels._LINEAR, kernels._onednn_linear()
    compare(torch.float32, "oneDNN")
    kernels._LINEAR, kernels._SLOW_BFLOAT16 = own, True
    compare(torch.bfloat16, "computation in float32")


if __name__ == "__main__":
    main()
