"""Run the test suite of the `entmax` package with its names mapped onto regard.

    python tools/entmax_suite.py DIRECTORY [pytest options]

DIRECTORY contains `test_losses.py`, `test_mask.py`, `test_root_finding.py` and `test_topk.py`: the directory
`entmax` of its unpacked source distribution, or of the installed package. The tests run in a copy in a
temporary directory, where `entmax` is a package of the definitions below. They show how each name is written
with regard (docs/coming_from_entmax.md).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ACTIVATIONS = '''
import torch
from regard.functional import entmax15, sparsemax
from regard import nn

def Sparsemax(dim=-1, k=None):
    return nn.Sparsemax(dim)

def Entmax15(dim=-1, k=None):
    return nn.Entmax15(dim)

def _threshold_and_support(p, x, alpha, dim):
    """Return the threshold and the size of the support, from the weights."""
    support = p > 0
    size = support.sum(dim, keepdim=True)
    top = x.amax(dim, keepdim=True)
    z = torch.where(support, (x - top).double(), 0)
    if alpha == 2:
        return ((z.sum(dim, keepdim=True) - 1) / size + top).to(x.dtype), size
    mean = z.sum(dim, keepdim=True) / size
    spread = torch.where(support, z - mean, 0).square().sum(dim, keepdim=True)
    return (mean - ((1 - spread) / size).clamp_min(0).sqrt() + top).to(x.dtype), size

def _sparsemax_threshold_and_support(X, dim=-1, k=None):
    return _threshold_and_support(sparsemax(X, dim), X, 2, dim)

def _entmax_threshold_and_support(X, dim=-1, k=None):
    # The caller has divided the scores by 2.
    return _threshold_and_support(entmax15(2 * X, dim), X, 1.5, dim)
'''
ROOT_FINDING = '''
import torch
from regard.functional import constrained_sparsemax, entmax, sparsemax

def sparsemax_bisect(X, dim=-1, n_iter=50):
    return sparsemax(X, dim)

def entmax_bisect(X, alpha=1.5, dim=-1, n_iter=50):
    return entmax(X, alpha, dim)

normmax_bisect = None  # no counterpart

def budget_bisect(X, budget=2, dim=-1, n_iter=50):
    """The distribution budget * q, with 0 <= q <= 1 / budget."""
    budget = torch.as_tensor(budget, dtype=X.dtype)
    return budget * constrained_sparsemax(X / budget, 1 / budget, dim=dim)
'''
LOSSES = """
from functools import partial
from regard import nn

REDUCTIONS = {"elementwise_mean": "mean"}

def _loss(kind, *args, k=None, ignore_index=-100, reduction="elementwise_mean"):
    return kind(*args, ignore_index=int(ignore_index), reduction=REDUCTIONS.get(reduction, reduction))

SparsemaxLoss = partial(_loss, nn.SparsemaxLoss)
Entmax15Loss = partial(_loss, nn.Entmax15Loss)
SparsemaxBisectLoss = partial(_loss, nn.SparsemaxLoss)
EntmaxBisectLoss = partial(_loss, nn.EntmaxLoss, 1.5)
NormmaxBisectLoss = None  # no counterpart
"""
FILES = {"activations": ACTIVATIONS, "root_finding": ROOT_FINDING, "losses": LOSSES}
INIT = "".join(f"from entmax.{name} import *\n" for name in FILES)


def main() -> int:
    """Run the tests and return the exit status of pytest."""
    if len(sys.argv) < 2 or not (tests := sorted(Path(sys.argv[1]).glob("**/test_*.py"))):
        sys.exit(f"{__doc__}\nno test_*.py found")
    with tempfile.TemporaryDirectory() as directory:
        package = Path(directory, "entmax")
        package.mkdir()
        (package / "__init__.py").write_text(INIT)
        for name, text in FILES.items():
            (package / f"{name}.py").write_text(text)
        for path in tests:
            shutil.copy(path, directory)
        search = os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", *sys.argv[2:], directory]
        return subprocess.run(command, cwd=directory, env={**os.environ, "PYTHONPATH": search}).returncode


if __name__ == "__main__":
    sys.exit(main())
