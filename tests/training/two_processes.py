"""Train, stop and resume; test_distributed.py starts it with torchrun as `two_processes.py TASK.json`."""

import json
import sys
from pathlib import Path

import torch

from conftest import VOCAB_SIZE, Pairs, make_model
from regard.config import from_dict
from regard.models import build_model
from regard.models.conv.model import ConvConfig
from regard.training.config import TrainingConfig
from regard.training.run_context import RunContext, init_process_group
from regard.training.trainer import Trainer

task = json.loads(Path(sys.argv[1]).read_text())
torch.set_num_threads(1)
with init_process_group(torch.device("cpu")) as processes:
    for training in task["runs"]:
        Trainer(
            build_model(from_dict(ConvConfig, task["conv"]), VOCAB_SIZE, VOCAB_SIZE)
            if "conv" in task
            else make_model(),
            Pairs(task["train"]),
            Pairs(task["valid"]),
            from_dict(TrainingConfig, training),
            RunContext(Path(task["output_dir"]), 1, processes),
        ).run()

threads = {thread.read_text().strip() for thread in Path("/proc/self/task").glob("*/comm")}
assert not any("gloo" in thread for thread in threads), f"threads of the process group are left: {threads}"
