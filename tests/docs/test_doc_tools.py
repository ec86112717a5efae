"""The checker of the built site finds broken links, and stored notebooks are those that were executed."""

from pathlib import Path

import check_site
import pytest
import site_notebooks
from nbformat import v4 as notebooks
from nbformat import write


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
