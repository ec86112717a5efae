"""Pages of the site from the executed notebooks (`tools/notebooks.py`): text, code and outputs."""

import html
import re
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["pages"]

ROOT = Path(__file__).resolve().parents[1]
EXECUTED = ROOT / "build" / "notebooks"


def pages(directory: Path) -> dict[str, str]:
    """Return the pages of the notebooks in a directory.

    Raises:
        FileNotFoundError: if a notebook has not been executed since it was changed.
    """
    made = {}
    for path in sorted(directory.glob("*.ipynb")):
        executed = EXECUTED / path.name
        notebook = nbformat.read(executed, as_version=4) if executed.is_file() else None
        if notebook is None or sources(notebook) != sources(nbformat.read(path, as_version=4)):
            raise FileNotFoundError(f"{path.name} has not been executed: run python tools/notebooks.py")
        made[f"notebooks/{path.stem}.md"] = "\n\n".join(
            text for cell in notebook.cells if (text := _cell(cell))
        )
    return made


def sources(notebook: Any) -> list[str]:
    """Return the text of the cells of a notebook."""
    return [cell.source for cell in notebook.cells]


def _cell(cell: Any) -> str:
    """Return a cell as Markdown, with its outputs."""
    if cell.cell_type == "markdown":
        return cell.source
    outputs = "\n".join(_output(one) for one in cell.get("outputs", ()))
    shown = f'\n\n<div class="notebook-output">\n{outputs}\n</div>' if outputs.strip() else ""
    return f"```python\n{cell.source}\n```{shown}"


def _output(output: Any) -> str:
    """Return an output as one line of HTML, so that Markdown leaves it as it is."""
    if output.output_type == "stream":
        return f"<pre>{_one_line(html.escape(output.text))}</pre>" if output.name == "stdout" else ""
    data = output.get("data", {})
    if "text/html" in data:
        return re.sub(r"\s*\n\s*", " ", data["text/html"])
    if "image/svg+xml" in data:
        return re.sub(r"\s*\n\s*", " ", data["image/svg+xml"])
    if "image/png" in data:
        return f'<img alt="Output of the cell above" src="data:image/png;base64,{data["image/png"].strip()}">'
    return f"<pre>{_one_line(html.escape(data.get('text/plain', '')))}</pre>"


def _one_line(text: str) -> str:
    """Return preformatted text without line breaks in the source."""
    return text.rstrip("\n").replace("\n", "&#10;")
