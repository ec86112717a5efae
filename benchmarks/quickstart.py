"""The difference between the two models of `regard quickstart` over several seeds.

    for seed in 1 2 3 4 5; do regard quickstart --seed $seed -o runs/$seed --json $seed.json; done
    python benchmarks/quickstart.py 1.json 2.json 3.json 4.json 5.json

Each seed has its own text and its own models. The intervals are those of Student's t distribution over seeds.
"""

import json
import math
import sys
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import t as student


def main() -> None:
    """Print the scores of both models for each seed, and the mean differences with their 95 % intervals."""
    runs = [
        {system["name"]: system["scores"] for system in json.loads(Path(path).read_text("utf-8"))["systems"]}
        for path in sys.argv[1:]
    ]
    print("| score | soft | constrained | difference | 95 % interval |")
    print("|---|---|---|---|---|")
    for metric in ("bleu", "rep", "drop", "aer"):
        soft, bounded = ([run[name][metric]["value"] for run in runs] for name in ("soft", "constrained"))
        differences = [b - s for s, b in zip(soft, bounded, strict=True)]
        half = student.ppf(0.975, len(runs) - 1) * stdev(differences) / math.sqrt(len(runs))
        center = mean(differences)
        values = (", ".join(f"{value:.1f}" for value in side) for side in (soft, bounded))
        print(
            f"| {metric.upper()} | {' | '.join(values)} | {center:+.2f} "
            f"| {center - half:+.2f} to {center + half:+.2f} |"
        )


if __name__ == "__main__":
    main()
