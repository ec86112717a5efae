"""Test that kernels keep their temporary memory alive until they return.

Memory that was freed too early usually still holds its content. With a low M_MMAP_THRESHOLD, malloc maps
every block and unmaps it when it is freed, so that a late access crashes the process. The threshold is set
after a first run, because imports and compilation take long with it.
"""

import platform
import subprocess
import sys

import pytest

EVERY_KERNEL = """
import ctypes

import torch
from regard import functional as F
from regard.kernels.attention import slot_attention
from regard.kernels.backend import use_backend
from regard.kernels.logits import topk

scores, upper = torch.randn(9, 700, requires_grad=True), torch.rand(9, 700, requires_grad=True)
steps, fertility = torch.randn(9, 3, 700, requires_grad=True), torch.ones(9, 700, requires_grad=True)
slots = torch.randint(0, 9, (20, 300))
for mmap_threshold in (None, 1024):
    if mmap_threshold:
        assert ctypes.CDLL(None).mallopt(-3, mmap_threshold) == 1  # M_MMAP_THRESHOLD of malloc.h
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
    command = [sys.executable, "-X", "faulthandler", "-c", EVERY_KERNEL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
