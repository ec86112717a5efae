"""Time of the attention transformations, forward and backward, relative to softmax at the same shape.

    python benchmarks/maps.py [--device cuda] [--json FILE]

Prints a table of medians: softmax in microseconds, every other transformation as a multiple of softmax, and
the `entmax` package if it is installed; then the scans over decoding steps, compared with loops of single
steps. All systems alternate within each round, and ratios are computed within a round, in one process. The
gradient includes the bounds. With `--device cuda` the ratios are relative to the time of reading and
writing the tensors once, and the shapes are larger.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
    entmax15,
    fusedmax,
    sparsemax,
)
from regard.functional.scans import remaining_bound
from regard.kernels.backend import use_backend

SHAPES = ((64, 30), (64, 100), (2048, 50), (64, 4, 50, 50), (16, 1024))
CUDA_SHAPES = ((64 * 8 * 50, 50), (16 * 8 * 1024, 1024))
CUDA_SCANS = ((64 * 8, 50, 50), (16 * 8, 1024, 1024))
SCAN = (64, 50, 50)
LARGEST_FUSED = 1 << 22  # number of elements on a GPU, where fusedmax has no kernel of its own
LOOP_STEPS = 50  # longer loops of single steps would take most of the time of the measurement
Step = Callable[[], object]


def bounds(shape: tuple[int, ...], kind: str, generator: torch.Generator) -> torch.Tensor:
    """Return bounds with sums of at least 1.02: rand * 4 / S (`tight`) or rand * 3 with 30 % zeros."""
    uniform = torch.rand(shape, generator=generator)
    if kind == "tight":
        upper = uniform * 4 / shape[-1]
    else:
        upper = uniform * 3 * (torch.rand(shape, generator=generator) >= 0.3)
    total = upper.sum(-1, keepdim=True)
    return torch.where(total < 1.02, upper * 1.0201 / total.clamp_min(1e-6), upper)


def both_ways(
    normalizer: Callable[..., torch.Tensor], gradient: torch.Tensor, *arguments: torch.Tensor
) -> Step:
    """Return a function that computes the transformation and its gradient once."""
    leaves = [one.detach().requires_grad_() for one in arguments]

    def step() -> None:
        torch.autograd.grad(normalizer(*leaves), leaves, gradient)

    return step


def timed(step: Step, repeats: int, device: str) -> float:
    """Return the median of the seconds of one call over `repeats` calls."""
    if device == "cuda":
        events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        events[0].record()
        for event in events[1:]:
            step()
            event.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(events)) / 1e3
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        step()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def compare(steps: dict[str, Step], base: str, rounds: int, seconds: float, device: str) -> dict[str, Any]:
    """Return the median microseconds of each step, and the median of its per-round ratios to `base`."""
    # The number of calls per round is chosen so that each step runs for about `seconds`.
    repeats = {}
    for name, step in steps.items():
        for _ in range(3):
            step()
        once = min(timed(step, 1, device) for _ in range(3))
        repeats[name] = max(1, min(1000, int(seconds / once)))
    runs = [{name: timed(step, repeats[name], device) for name, step in steps.items()} for _ in range(rounds)]
    return {
        name: {
            "us": statistics.median(run[name] for run in runs) * 1e6,
            "ratio": statistics.median(run[name] / run[base] for run in runs),
        }
        for name in steps
    }


def yardstick(args: argparse.Namespace) -> str:
    """Return the name of the step to which ratios are computed."""
    return "memory" if args.device == "cuda" else "softmax"


def through_memory(scores: torch.Tensor) -> Step:
    """Return a step that reads three tensors (scores, bounds, gradient) and writes three."""
    return lambda: (scores.add(1), scores.add(1), scores.add(1))


def measure_normalizers(shape: tuple[int, ...], args: argparse.Namespace) -> dict[str, Any]:
    """Measure all transformations at one shape."""
    generator = torch.Generator().manual_seed(args.seed)
    scores = torch.randn(shape, generator=generator).to(args.device)
    gradient = torch.randn(shape, generator=generator).to(args.device)
    steps = {
        "softmax": both_ways(lambda z: torch.softmax(z, -1), gradient, scores),
        "sparsemax": both_ways(sparsemax, gradient, scores),
        "entmax15": both_ways(entmax15, gradient, scores),
    }
    if args.device == "cpu" or scores.numel() <= LARGEST_FUSED:
        steps["fusedmax"] = both_ways(fusedmax, gradient, scores)
    for kind in ("tight", "loose"):
        upper = bounds(shape, kind, generator).to(args.device)
        for normalizer in (constrained_softmax, constrained_sparsemax):
            steps[f"{normalizer.__name__}, {kind}"] = both_ways(normalizer, gradient, scores, upper)
    if args.package:
        import entmax

        steps["entmax package: sparsemax"] = both_ways(lambda z: entmax.sparsemax(z, -1), gradient, scores)
        steps["entmax package: entmax15"] = both_ways(lambda z: entmax.entmax15(z, -1), gradient, scores)
    if args.device == "cuda":
        steps["memory"] = through_memory(scores)
    return compare(steps, yardstick(args), args.rounds, args.seconds, args.device)


def loop(normalizer: Callable[..., torch.Tensor]) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return a function that computes a scan as a loop of single steps."""

    def steps(scores: torch.Tensor, fertility: torch.Tensor) -> torch.Tensor:
        received = torch.zeros_like(fertility)
        found = []
        for t in range(scores.shape[1]):
            weights = normalizer(scores[:, t], remaining_bound(fertility, received))
            received = received + weights
            found.append(weights)
        return torch.stack(found, 1)

    return steps


def in_plain(normalizer: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the transformation in its reference implementation (plain PyTorch)."""

    def plain(*arguments: torch.Tensor) -> torch.Tensor:
        with use_backend("reference"):
            return normalizer(*arguments)

    return plain


def scans(shape: tuple[int, int, int], args: argparse.Namespace) -> dict[str, Any]:
    """Measure both scans and the loops of single steps."""
    generator = torch.Generator().manual_seed(args.seed)
    batch, _, size = shape
    scores = torch.randn(shape, generator=generator)
    gradient = torch.randn(shape, generator=generator)
    # Fertilities from 1 to 3 and a sink, as in Malaviya et al. (2018).
    fertility = torch.randint(1, 4, (batch, size), generator=generator).float()
    fertility[:, -1] = torch.inf
    scores, gradient, fertility = (one.to(args.device) for one in (scores, gradient, fertility))
    found = {}
    for scan, normalizer in (
        (constrained_softmax_scan, constrained_softmax),
        (constrained_sparsemax_scan, constrained_sparsemax),
    ):
        steps = {scan.__name__: both_ways(scan, gradient, scores, fertility)}
        if args.device == "cuda":
            steps["memory"] = through_memory(scores)
        if size <= LOOP_STEPS:
            steps["loop of our steps"] = both_ways(loop(normalizer), gradient, scores, fertility)
            steps["loop of plain steps"] = both_ways(loop(in_plain(normalizer)), gradient, scores, fertility)
        baseline = "memory" if args.device == "cuda" else scan.__name__
        found[scan.__name__] = compare(steps, baseline, args.rounds, args.seconds, args.device)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02, help="seconds per system and round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-package", dest="package", action="store_false", help="do not measure the entmax package"
    )
    parser.add_argument("--only", help="shapes to measure, such as 64x30,2048x50")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    shapes = CUDA_SHAPES if args.device == "cuda" else SHAPES
    if args.only:
        shapes = [tuple(int(n) for n in shape.split("x")) for shape in args.only.split(",")]
    record: dict[str, Any] = {"torch": torch.__version__, "threads": args.threads, "device": args.device}
    for shape in shapes:
        record[str(list(shape))] = found = measure_normalizers(shape, args)
        baseline = yardstick(args)
        for name, each in found.items():
            print(
                f"{list(shape)!s:18} {name:32} {each['us']:10.1f} us {each['ratio']:7.2f} x {baseline}",
                flush=True,
            )
    for shape in CUDA_SCANS if args.device == "cuda" else (SCAN,):
        record[f"scan {list(shape)}"] = found = scans(shape, args)
        for group in found.values():
            unit = "memory" if args.device == "cuda" else "scan"
            for name, each in group.items():
                print(
                    f"{list(shape)!s:18} {name:32} {each['us']:10.1f} us {each['ratio']:8.2f} x {unit}",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
