"""The example scripts of the documentation run, and the example plugin passes its own tests."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
PLUGIN = ROOT / "examples" / "plugin"


def run(monkeypatch, capsys, name: str, *arguments: str) -> str:
    """Run a script and return its standard output."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def share(output: str, label: str) -> float:
    """Return the percentage printed after a label."""
    found = re.search(re.escape(label) + r": ([0-9.]+)%", output)
    assert found is not None, output
    return float(found[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "label", "least"),
    [
        ("entailment.py", "150", "accuracy on 1,000 new pairs", 45),  # chance level is a third
        ("sentence_pairs.py", "20", "accuracy on 500 new pairs", 30),
        ("captions.py", "20", "weights that are exactly zero", 0),
    ],
)
def test_models_with_sparse_attention_learn(monkeypatch, capsys, name, steps, label, least) -> None:
    output = run(monkeypatch, capsys, name, "--steps", steps)
    assert share(output, label) > least
    assert share(output, "weights that are exactly zero") > (0 if name == "captions.py" else 30)


def test_constrained_weights_respect_the_bound_in_a_custom_model(monkeypatch, capsys) -> None:
    lines = run(monkeypatch, capsys, "own_model.py", "--steps", "60").splitlines()
    table = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert table.keys() == {"softmax", "sparsemax", "constrained"}
    assert table["softmax"][1] == "14.0" and float(table["sparsemax"][1]) < 14
    assert float(table["constrained"][2]) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("task", ["transliteration", "sounds"])
def test_spelling_example_trains_from_a_table(monkeypatch, capsys, tmp_path, task) -> None:
    arguments = ("--output-dir", str(tmp_path), "--words", "300", "--epochs", "1")
    output = run(monkeypatch, capsys, "spelling.py", task, *arguments)
    assert "of 200 unseen words" in output


@pytest.mark.slow
def test_example_plugin_passes_its_own_tests() -> None:
    # In a process of its own, because a plugin registers its parts for the whole process. Its modules are
    # imported already, so that pytest cannot rewrite their assertions.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN / "src"), str(ROOT / "src")])}
    options = "-q -n0 --assert=plain -p no:cacheprovider tests".split()
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=PLUGIN, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
