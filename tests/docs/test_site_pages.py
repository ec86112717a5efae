"""Pages start with an example, notebooks have no outputs, and other files agree with the package."""

import json
import re
from pathlib import Path

import doc_blocks
import pytest
import yaml

from regard.version import __version__

ROOT = doc_blocks.ROOT
DOCS = ROOT / "docs"
MAX_WORDS_BEFORE_EXAMPLE = 180
"""About one screen; rows of tables are read as examples."""

PAGES = [path for path in doc_blocks.pages() if path.is_relative_to(DOCS)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_first_example_is_on_the_first_screen(path: Path) -> None:
    before = re.split(
        r"^(?:```|\||!\[|    \S)", path.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE
    )
    assert len(before) == 2, "no example"
    assert len(before[0].split()) <= MAX_WORDS_BEFORE_EXAMPLE


def test_notebooks_are_stored_without_outputs() -> None:
    notebooks = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 3
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path


def test_citation_has_the_version_of_the_package() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__


def test_workflow_runs_the_gate_on_all_supported_versions() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8"))
    gate = workflow["jobs"]["gate"]
    assert any(step.get("run") == ".ci/run" for step in gate["steps"])
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert gate["strategy"]["matrix"]["python"] == re.findall(r"Python :: (3\.\d+)", metadata)
