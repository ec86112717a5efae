"""Test that kernels keep their temporary memory alive until they return.

Memory that was freed too early usually still holds its content. With a low MALLOC_MMAP_THRESHOLD_, malloc
maps every block and unmaps it when it is freed, so that a late access crashes the process.
"""

import os
import platform
import subprocess
import sys

import pytest

EVERY_KERNEL = """
import torch
from regard import functional as F
from regard.kernels.attention import slot_attention
from regard.kernels.backend import use_backend
from regard.kernels.logits import topk

scores, upper = torch.randn(9, 700, requires_grad=True), torch.rand(9, 700, requires_grad=True)
steps, fertility = torch.randn(9, 3, 700, requires_grad=True), torch.ones(9, 700, requires_grad=True)
slots = torch.randint(0, 9, (20, 300))
with use_backend("numba"):
    F.sparsemax(scores).square().sum().backward()
    F.entmax15(scores).square().sum().backward()
    F.constrained_softmax(scores, upper).square().sum().backward()
    F.constrained_sparsemax(scores, upper).square().sum().backward()
    F.constrained_softmax_scan(steps, fertility).square().sum().backward()
    F.constrained_sparsemax_scan(steps, fertility).square().sum().backward()
    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            slot_attention(torch.randn(20, 64).to(dtype), torch.randn(9, 128).to(dtype), slots, 2)
        topk(torch.randn(4, 70_000), 300)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="requires the malloc of glibc")
def test_kernels_do_not_access_freed_memory() -> None:
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1024"}
    command = [sys.executable, "-X", "faulthandler", "-c", EVERY_KERNEL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
