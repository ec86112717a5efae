"""The checker of the built site finds broken links, and code blocks are read with their marks."""

from pathlib import Path

import check_site
import doc_blocks
import pytest
import run_long_examples
import site_examples
import site_notebooks
from nbformat import v4 as notebooks
from nbformat import write


def found_problems(tmp_path: Path, body: str) -> list[str]:
    (tmp_path / "index.html").write_text(f'<html><body id="top">{body}</body></html>')
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    return list(check_site.problems(tmp_path))


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
    found = found_problems(tmp_path, body)
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


def read_blocks(tmp_path: Path, monkeypatch, text: str) -> list[doc_blocks.Block]:
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    monkeypatch.setattr(run_long_examples, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    return doc_blocks.blocks(page)


def test_fenced_and_indented_blocks_have_a_language_and_a_mark(tmp_path: Path, monkeypatch) -> None:
    text = (
        "# A\n\n```python\nx = 1\n```\n\n<!-- long -->\n```sh\nregard tour\n```\n\nB:\n\n    regard config\n"
    )
    assert [
        (one.line, one.language, one.code, one.mark) for one in read_blocks(tmp_path, monkeypatch, text)
    ] == [
        (4, "python", "x = 1", ""),
        (9, "sh", "regard tour", "long"),
        (12, "sh", "regard config", ""),
    ]


def test_commands_that_install_are_left_out() -> None:
    code = "python3 -m venv a && pip install . && .venv/bin/regard config \\\n    --find beam\npip install x"
    assert doc_blocks.runnable(code) == "regard config --find beam"
    assert doc_blocks.runnable("regard tour && regard config", ("regard tour",)) == "regard config"


def test_file_name_of_a_block_is_the_one_above_it(tmp_path: Path, monkeypatch) -> None:
    found = read_blocks(
        tmp_path, monkeypatch, "Save this file as `a.toml`:\n\n```toml\nx = 1\n```\n\n```toml\ny = 1\n```\n"
    )
    assert run_long_examples.file_name(found[0]) == "a.toml"


def test_examples_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("import a\n# --- regard.x\nx(1)\n\n\n# --- regard.y\ny(2)\n")
    common, names = site_examples.sections(tmp_path / "some.py")
    assert (common, names) == ("import a\n", {"regard.x": "x(1)", "regard.y": "y(2)"})


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
