"""Fault injection and fuzzing, at length: `python -m tests.faults --cases 10000 [--memory 4096]`.

Prints the table of attacks; the exit status is 1 if any succeeded. `--cases 0` tries every fault at every
write event of every command that writes files.
"""

import argparse
import importlib
import sys
from pathlib import Path

from .injector import run

# As in pytest, modules of other folders of tests can be imported.
sys.path.insert(0, str(Path(__file__).parents[1]))


def main(arguments: list[str] | None = None) -> int:
    """Run the attacks and print their results."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--cases", type=int, default=1000, help="Number of cases of each part. 0 tries all write events."
    )
    parser.add_argument("--seed", type=int, default=1, help="Seed that selects the cases.")
    parser.add_argument(
        "--memory",
        type=int,
        default=None,
        help="Memory limit of the part `inputs`, in MiB. Default: no limit.",
    )
    parser.add_argument("--part", choices=("all", "writes", "inputs"), default="all", help="The part to run.")
    options = parser.parse_args(arguments)
    rows = run(options.cases, options.seed) if options.part in ("all", "writes") else []
    if options.part in ("all", "inputs"):
        rows += importlib.import_module(f"{__package__}.fuzzer").run(
            options.cases, options.seed, options.memory
        )
    width = max(len(row.name) for row in rows)
    print(f"{'attack':{width}}  cases  failures")
    for row in rows:
        print(f"{row.name:{width}}  {row.cases:5}  {len(row.failures):8}")
    cases, failures = sum(row.cases for row in rows), [one for row in rows for one in row.failures]
    print(f"{'total':{width}}  {cases:5}  {len(failures):8}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
