"""Speed of the detectors of coverage errors on a real text.

    python benchmarks/coverage.py SOURCE TRANSLATION --model DIR [--runs 5] [--profile]

DIR is a model written by `regard check --save-checker`. The time is that from lines of text to scores,
without loading the model; the first run, in which kernels are compiled, is not counted. The median of the
runs is printed for each detector and for all together, and the processor time next to it, which other
processes on the machine do not change.
"""

import argparse
import cProfile
import platform
import pstats
import statistics
import time
from pathlib import Path

from regard.config.cpu_threads import num_available_cpus
from regard.extensions.check.base import build_detector, split_pairs
from regard.extensions.check.model_files import load_coverage_model
from regard.text.corpus import read_lines

DETECTORS = ("length", "repetition", "combined")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("translation", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    arguments = parser.parse_args()
    lines = list(read_lines(arguments.source)), list(read_lines(arguments.translation))
    model = load_coverage_model(arguments.model)
    detectors = {name: build_detector(name, model) for name in DETECTORS}
    size = len(lines[0])
    words = sum(len(pair.source) for pair in split_pairs(*lines)) / size
    print(f"{size} sentences of {words:.1f} words, {num_available_cpus()} processors, {platform.processor()}")
    if arguments.profile:
        profile = cProfile.Profile()
        for detector in detectors.values():
            detector.detect(split_pairs(*lines))
        profile.enable()
        for detector in detectors.values():
            detector.detect(split_pairs(*lines))
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in (*DETECTORS, "together")}
    for _ in range(arguments.runs + 1):
        start = time.perf_counter(), time.process_time()
        pairs = split_pairs(*lines)
        for name, detector in detectors.items():
            began = time.perf_counter(), time.process_time()
            detector.detect(pairs)
            times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
        times["together"].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    for name, runs in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*runs[1:], strict=True))
        print(f"{name:12} {size / wall:8.0f} sentences/s, {1e6 * cpu / size:6.0f} µs of processor time each")


if __name__ == "__main__":
    main()
