"""Training of several systems of the tour at the same time, each with a share of the processors.

    python -m regard.extensions.tour.side_by_side CONFIG DIRECTORY PARENT

CONFIG contains the settings of the run as JSON.

A small model uses two processors badly: two trainings with one thread each take little more than half of the
time of two trainings after one another with two threads each.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from regard.child_processes import exit_with_parent, interrupt_on_signals, start_module, stop_processes
from regard.config import from_dict, to_dict
from regard.cpu_threads import num_available_cpus
from regard.data.dataset import prepare_data
from regard.errors import RegardError
from regard.experiment import run_training
from regard.extensions.tour.runner import ProgressFactory, Tour, TourSystem, TrainingInterruptedError
from regard.run_config import RunConfig
from regard.text.files import write_atomic
from regard.training.device import pick_device
from regard.training.fertility import add_fertilities

__all__ = ["train_side_by_side"]

_log = logging.getLogger(__name__)


def train_side_by_side(tour: Tour, systems: Sequence[TourSystem], progress: ProgressFactory) -> None:
    """Train neural systems at the same time, if there are a processor for each and no GPU.

    The last system is trained in this process, and the others in processes of their own, which write their
    output to `models/SYSTEM.log`. `Tour.train` then finds the systems trained. It trains a system whose
    process failed, for example because it needed too much memory.

    Args:
        tour: The tour, whose corpus has been written.
        systems: The systems. Those with measured costs are left as they are.
        progress: A function that returns a context for the progress display of text preparation.

    Raises:
        TrainingInterruptedError: if a signal was received; the states of all trainings are saved.
    """
    unfinished = [system for system in systems if not tour.costs_file(system).exists()]
    threads = _num_threads() // max(1, len(unfinished))
    configs = [tour.config(system) for system in unfinished]
    if len(unfinished) < 2 or not threads or any(pick_device(one.device).type != "cpu" for one in configs):
        return
    before, children = torch.get_num_threads(), []
    with interrupt_on_signals():
        _create_shared_files(configs, progress)
        try:
            for system, config in zip(unfinished[:-1], configs[:-1], strict=True):
                children.append(_start(tour, system, config, threads))
            torch.set_num_threads(threads)
            result = run_training(configs[-1], tour.model_dir(unfinished[-1]), progress)
            if result.signal is not None:
                raise TrainingInterruptedError(result.signal)
            _wait(children)
        finally:
            torch.set_num_threads(before)
            stop_processes(children)


def _num_threads() -> int:
    """Return the number of available processors, at most `OMP_NUM_THREADS`."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cpus = num_available_cpus()
    return min(cpus, int(allowed)) if allowed.isdecimal() and int(allowed) else cpus


def _create_shared_files(configs: Sequence[RunConfig], progress: ProgressFactory) -> None:
    """Prepare the text of the tour and compute the fertilities, which all processes would otherwise do."""
    with progress() as shown:
        prepared = prepare_data(configs[0].data, progress=shown)
    for config in configs:
        add_fertilities(prepared, config.data.fertility, prepared.fingerprint)


def _start(tour: Tour, system: TourSystem, config: RunConfig, threads: int) -> "subprocess.Popen[bytes]":
    """Start the training of a system in its own process."""
    directory = tour.model_dir(system)
    log, description = directory.with_suffix(".log"), directory.with_suffix(".run.json")
    directory.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(description, json.dumps(to_dict(config)).encode())
    _log.info("%s: trained at the same time, log in %s", system.name, log)
    return start_module(__name__, [str(description), str(directory)], log, threads)


def _wait(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Wait for processes; a signal ends the wait."""
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        raise TrainingInterruptedError(signal.SIGINT) from None


def _main() -> int:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    config, directory, parent = sys.argv[1:]
    exit_with_parent(int(parent))
    try:
        result = run_training(from_dict(RunConfig, json.loads(Path(config).read_bytes())), directory)
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return error.exit_status
    return 0 if result.signal is None else 128 + result.signal


if __name__ == "__main__":
    sys.exit(_main())
