"""Settings and fixtures of the whole suite, and runtime checks of tensor shapes.

The whole suite runs in one process per processor (pytest-xdist). Selected tests run in this process. Tests
with one of the markers of `LATER` are not part of the whole suite: `pytest -m later` runs them.

The import hook of jaxtyping, with beartype, must be installed before any checked package is imported. Three
kinds of packages are not checked: `kernels` (the hook breaks compiled kernels), `training` (its tests pass
doubles), and packages whose signatures contain no shapes.
"""

import atexit
import functools
import gc
import os
from collections.abc import Generator, Iterator

import pytest

from regard.config.cpu_threads import configure_threads, num_available_cpus

CHECKED_PACKAGES = (
    "functional",
    "layers",
    "attention",
    "data.batch",
    "metrics",
    "models",
    "generation",
    "plotting",
    "reporting",
)

LATER = ("faults", "browser", "blocks", "slow")
"""Markers of long tests: faults, pages in a browser, examples of the documentation."""

MAX_WORKERS = 8
"""Each worker needs about 1.5 GB of memory."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers: none for selected tests, because a worker needs seconds to start."""
    return min(num_available_cpus(), MAX_WORKERS) if _is_whole_suite(config) else 0


def _is_whole_suite(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def pytest_configure(config: pytest.Config) -> None:
    """Select the tests, and prepare this process, unless it only distributes them, which needs no PyTorch."""
    later = " or ".join(LATER)
    if config.option.markexpr == "later":
        config.option.markexpr = later
    elif _is_whole_suite(config) and not config.option.markexpr:
        config.option.markexpr = f"not ({later})"
    if "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("numprocesses", 0):
        return
    # The OpenMP settings take effect only before torch is imported, so the command line does the same. A
    # worker has one processor.
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    configure_threads()
    # A wrong name of a model is not looked for on the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Modules are imported until all tests are collected, and nearly all of these objects remain.
    gc.disable()

    import hypothesis
    import torch
    import typer.testing

    import shape_checks

    # Compilation at the first call and other work on the machine make the time of an example arbitrary.
    hypothesis.settings.register_profile("untimed", hypothesis.settings(), deadline=None)
    hypothesis.settings.load_profile("untimed")
    # Only a loss of power needs it; the order of the writes is tested in `faults`, in processes that keep it.
    os.fsync = lambda descriptor: None
    # Each call of a command would inspect the functions of all commands again.
    typer.testing._get_command = functools.cache(typer.main.get_command)
    # Triton reads this setting when it is first imported, which other tests may do before those of its
    # kernels.
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if not os.environ.get("REGARD_NO_SHAPE_CHECKS"):
        shape_checks.install([f"regard.{package}" for package in CHECKED_PACKAGES])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape the invalid bytes of file names in captured output, which xdist cannot send."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def pytest_collection_finish() -> None:
    """Exempt the imported modules from garbage collection, which would read all of them each time."""
    gc.collect()  # an unclosed file of a module is an error, as of a test
    gc.freeze()
    # Most objects are destroyed without it, and the heap is large.
    gc.set_threshold(20_000, 10, 20)
    gc.enable()
    # The interpreter destroys these modules, because some libraries warn of objects that remain.
    atexit.register(gc.unfreeze)


@pytest.fixture(autouse=True, scope="session")
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch

    # `torch.manual_seed` also stores a traceback for each kind of device that may be initialized later.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(0)
