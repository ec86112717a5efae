"""Tests of the cache of compiled code where a process cannot write, and of compiled search."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels.compilation import search_key

SCRIPT = """
import logging, resource, sys
from regard.kernels.compilation import njit

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
if "full" in sys.argv:  # writing a byte fails
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

@njit(cache=True)
def twice(x):
    return 2 * x

@njit(cache=True)
def thrice(x):
    return 3 * x

print(twice(2), thrice(2), "scipy.linalg" in sys.modules)
"""


def run(directory: Path, *arguments: str, **environment: str) -> str:
    """Run the script where it cannot create files next to it or in the user's cache; return the log.

    It must import `scipy.linalg`, which Numba's compiler needs, only if it compiles functions.
    """
    script = directory / "script.py"
    script.write_text(SCRIPT)
    (directory / "__pycache__").touch()  # a file, because root may write to every directory
    inherited = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env={**inherited, "XDG_CACHE_HOME": os.devnull, **environment},
        capture_output=True,
        text=True,
    )
    is_compiled = bool(done.stderr)
    assert done.stdout == f"4 6 {is_compiled}\n", done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["", os.devnull, "script.py"])
def test_functions_run_where_no_directory_is_writable_with_one_warning(tmp_path, chosen) -> None:
    log = run(tmp_path, NUMBA_CACHE_DIR=chosen and str(tmp_path / chosen))
    assert log.startswith("WARNING") and "NUMBA_CACHE_DIR" in log and log.count("\n") == 1


def test_a_full_disk_costs_the_cache_only(tmp_path) -> None:
    log = run(tmp_path, "full", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert log.count("\n") == 2 and "WARNING" in log and "File too large" in log


@pytest.mark.slow
def test_only_the_first_process_compiles_and_reports_the_directory(tmp_path) -> None:
    cache = tmp_path / "cache"
    log = run(tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert log.startswith("WARNING") and str(cache) in log and log.count("\n") == 1
    assert len(list(cache.rglob("*.nbc"))) == 2
    assert run(tmp_path, NUMBA_CACHE_DIR=str(cache)) == ""


@given(st.sets(st.integers(-20, 20)), st.integers(-25, 25))
def test_key_is_found_at_its_position(found, key) -> None:
    keys = np.array(sorted(found), dtype=np.int64)
    assert search_key(keys, key, 0, len(keys)) == (sorted(found).index(key) if key in found else -1)


def test_first_of_equal_keys_in_the_range_is_found() -> None:
    keys = np.array([1, 3, 3, 3, 5, 2, 3])
    assert [search_key(keys, 3, *limits) for limits in ((0, 5), (2, 5), (5, 7), (0, 1))] == [1, 2, 6, -1]
