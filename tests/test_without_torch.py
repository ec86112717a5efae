"""The text wing works without PyTorch: checks, alignment, evaluation and fertilities."""

import subprocess
import sys
from pathlib import Path

import pytest

from quick_coverage import phrasebook_model
from regard.extensions.phrasebook.corpus import write_splits

pytestmark = pytest.mark.slow

BLOCK = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "sentencepiece", "subword_nmt", "transformers", "uvicorn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, NoTorch())
from regard.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("text")
    write_splits(directory, {"train": 120, "valid": 10, "test": 20}, seed=1)
    (directory / "checker").symlink_to(phrasebook_model(tmp_path_factory))
    return directory


def run(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", BLOCK, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "line",
    [
        "check test.de test.en --checker checker --json check.json --sentence-scores scores.tsv",
        "check test.de test.en --detector length --report check.html",
        "check test.de test.en --train train.de train.en",
        "corrupt test.de test.en --checker checker -o corrupted",
        "align train.de train.en --model ibm1 -o links --save-aligner aligner",
        "evaluate test.en test.en",
        "fertility train.de train.en -o fertilities",
        "phrasebook corpus --num-train 50 --num-valid 10 --num-test 10",
    ],
)
def test_commands_of_the_text_wing_need_no_torch(text: Path, line: str) -> None:
    done = run(text, *line.split())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "extra"), [("translate", "torch"), ("serve", "serve")])
def test_commands_that_miss_a_package_say_how_to_install_it(text: Path, command: str, extra: str) -> None:
    done = run(text, command, "somewhere")
    assert done.returncode == 2 and f"pip install 'regard[{extra}]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
