"""Kill one training run many times and compare its result with that of an undisturbed run.

    python -m tests.faults.kills [--kills 200] [--seed 1]

Both runs train the same tiny recurrent model. One of them is killed (SIGKILL, the whole process group) a
random time after it has begun to train, and started again, until it was killed the given number of times. Its
weights must then be identical, bit for bit, and its record must contain the same losses. The exit status is 1
if they differ.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .commands import CONFIG, CONFIGS

STEPS_PER_KILL = 8
CHECKPOINT_EVERY = 2


def _command(arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "regard", *arguments.split()]


def _line_count(record: Path) -> int:
    return record.read_bytes().count(b"\n") if record.exists() else 0


def kill_once(arguments: str, directory: Path, delay: float) -> bool:
    """Start training, wait until it has recorded a further step and then `delay` seconds, and kill it.

    Returns:
        Whether the process was still running when it was killed.
    """
    record = directory / "killed" / "record.jsonl"
    before = _line_count(record)
    process = subprocess.Popen(
        _command(arguments), cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and _line_count(record) <= before:
        time.sleep(0.005)
    time.sleep(delay)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running


def _losses(record: Path) -> list[tuple[int, float]]:
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows if "loss" in row and "step" in row]


def main() -> int:
    """Run the comparison and print its result."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="Number of kills. Default: 200.")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the moments.")
    options = parser.parse_args()
    moments = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        subprocess.run(
            _command("phrasebook corpus --num-train 60 --num-valid 8 --num-test 6"),
            cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        config = CONFIG.format(data="prepared", min_frequency=1, more="") + CONFIGS["lstm"]
        (directory / "run.toml").write_text(config)
        steps = STEPS_PER_KILL * options.kills
        settings = (
            f"training.max_epochs=0 training.max_steps={steps} training.logging.every_steps=1 "
            f"training.checkpoint.every_steps={CHECKPOINT_EVERY} training.checkpoint.keep_last_epochs=0"
        )
        kills = 0
        while kills < options.kills:
            arguments = f"train run.toml --output-dir killed {settings}"
            if not kill_once(arguments, directory, moments.uniform(0.0, 0.1)):
                break
            kills += 1
            if kills % 20 == 0:
                print(
                    f"{kills} kills, {_line_count(directory / 'killed' / 'record.jsonl')} lines recorded",
                    flush=True,
                )
        for run in ("killed", "whole"):
            subprocess.run(
                _command(f"train run.toml --output-dir {run} {settings}"), cwd=directory, check=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        digests = [
            hashlib.sha256((directory / run / "model.safetensors").read_bytes()).hexdigest()
            for run in ("killed", "whole")
        ]
        losses = [_losses(directory / run / "record.jsonl") for run in ("killed", "whole")]
    same = digests[0] == digests[1] and losses[0] == losses[1]
    print(
        f"{kills} kills in a run of {steps} steps, {len(losses[1])} losses: "
        f"{'identical' if same else 'different'}"
    )
    return 0 if same and kills == options.kills and losses[1] else 1


if __name__ == "__main__":
    sys.exit(main())
