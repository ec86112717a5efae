"""Two real processes under torchrun against one, on the same batches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.training.record import read_record
from regard.training.trainer import Trainer

HERE = Path(__file__).parent

CHILD = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
import conftest
from regard.training.distributed import join
from regard.training.trainer import Trainer
torch.set_num_threads(1)
make = lambda fixture: fixture.__wrapped__()
folder, updates = Path(sys.argv[2]), int(sys.argv[3])
config = conftest.make_settings(**conftest.shared_run(updates))
with join(torch.device("cpu")) as processes:
    pairs, model = conftest.make_pairs, conftest.make_model()
    result = Trainer(model, pairs(55), pairs(7, seed=9), config, folder=folder, seed=1, processes=processes).run()
"""
