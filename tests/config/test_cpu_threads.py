"""The number of processors that a process may use; OpenMP settings of the user take precedence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config.cpu_threads import SPIN_COUNT, configure_threads, num_available_cpus


@pytest.fixture
def machine(monkeypatch, tmp_path: Path):
    """Return a function that simulates a machine with a processor affinity and a CPU quota."""

    def make(processors: int, quota: str) -> None:
        (tmp_path / "cpu.max").write_text(quota)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)), raising=False)
        monkeypatch.setattr("regard.config.cpu_threads.CPU_QUOTA", tmp_path / "cpu.max")

    return make


@pytest.mark.parametrize(
    ("processors", "quota", "available"),
    [
        (4, "max 100000", 4),
        (4, "", 4),
        (4, "200000 100000", 2),
        (4, "210000 100000", 3),
        (4, "1000 100000", 1),
        (4, "800000 100000", 4),
        (1, "200000 100000", 1),
    ],
)
def test_affinity_and_quota_limit_the_processors(machine, monkeypatch, processors, quota, available) -> None:
    machine(processors, quota)
    assert num_available_cpus() == available
    environment: dict[str, str] = {}
    monkeypatch.setattr("os.environ", environment)
    configure_threads()
    assert environment.get("OMP_NUM_THREADS") == (str(available) if available < processors else None)


@pytest.mark.parametrize(
    "given",
    [
        {"GOMP_SPINCOUNT": "7"},
        {"OMP_WAIT_POLICY": "active"},
        {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "3"},
    ],
)
def test_user_settings_are_kept(machine, monkeypatch, given: dict[str, str]) -> None:
    machine(4, "200000 100000")
    environment = dict(given)
    monkeypatch.setattr("os.environ", environment)
    configure_threads()
    assert environment == {"OMP_NUM_THREADS": "2", **given}


def test_default_number_of_threads_follows_the_processors(machine, monkeypatch) -> None:
    import torch

    from regard.runs.device import set_num_threads

    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    try:
        torch.set_num_threads(3)
        for quota in ("200000 100000", "max 100000"):
            machine(4, quota)
            set_num_threads(None)
            assert torch.get_num_threads() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        torch.set_num_threads(3)
        machine(4, "100000 100000")
        set_num_threads(None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def _run(code: str, **variables: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=kept | variables
    )


COMMAND = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch imported with", os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
            sys.exit()
sys.meta_path.insert(0, Watch())
from regard.cli.main import main
sys.argv = ["regard", "translate", "nowhere"]
main()
"""


@pytest.mark.slow
def test_command_sets_openmp_variables_before_importing_torch() -> None:
    assert f"torch imported with {SPIN_COUNT} None" in _run(COMMAND).stdout
    assert "torch imported with None passive" in _run(COMMAND, OMP_WAIT_POLICY="passive").stdout
    assert "torch imported with 7 None" in _run(COMMAND, GOMP_SPINCOUNT="7").stdout


def test_openmp_library_of_torch_reads_the_settings() -> None:
    code = "import regard; regard.configure_threads(); import torch"
    shown = _run(code, OMP_DISPLAY_ENV="VERBOSE").stderr
    if "GOMP_SPINCOUNT" not in shown:
        pytest.skip("this build of torch does not use the OpenMP library of GNU")
    assert f"GOMP_SPINCOUNT = '{SPIN_COUNT}'" in shown
