"""Pages start with an example, links of the site lead somewhere, and other files agree with the package."""

import json
import re
from pathlib import Path

import check_site
import doc_blocks
import pytest
import site_notebooks
import yaml
from nbformat import v4 as notebooks
from nbformat import write

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
    paths = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert len(paths) >= 3
    for path in paths:
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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<a href="other.html#here">x</a><a href="#top">x</a><a href="https://example.org">x</a>', None),
        ('<a href="missing.html">x</a>', "no file missing.html"),
        ('<a href="other.html#gone">x</a>', "has no anchor #gone"),
        ('<img src="gone.png">', "no file gone.png"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link href="//example.org/x.css">', "loads //example.org/x.css"),
    ],
)
def test_broken_links_and_foreign_files_of_a_site_are_found(tmp_path: Path, body, message) -> None:
    (tmp_path / "index.html").write_text(f'<html><body id="top">{body}</body></html>')
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    found = list(check_site.problems(tmp_path))
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


def test_a_notebook_that_changed_since_its_execution_is_refused(tmp_path: Path, monkeypatch) -> None:
    executed = tmp_path / "executed"
    executed.mkdir()
    monkeypatch.setattr(site_notebooks, "EXECUTED", executed)
    cell = notebooks.new_code_cell("1 + 1")
    write(notebooks.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    with pytest.raises(FileNotFoundError, match="has not been executed"):
        site_notebooks.pages(tmp_path)
    cell.outputs = [notebooks.new_output("execute_result", data={"text/plain": "<2>"})]
    write(notebooks.new_notebook(cells=[cell]), executed / "a.ipynb")
    text = site_notebooks.pages(tmp_path)["notebooks/a.md"]
    assert "```python\n1 + 1\n```" in text and "<pre>&lt;2&gt;</pre>" in text
