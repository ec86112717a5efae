"""Execute the notebooks of the documentation and write the copies with outputs that the site shows.

    python tools/notebooks.py [NOTEBOOK...] [--output-dir build/notebooks]

The notebooks in docs/notebooks have no outputs. An error in a cell ends the script with status 1. Each
notebook runs in an empty temporary directory, with a kernel of this Python.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"


def main() -> None:
    """Execute the notebooks, two at the same time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of docs/notebooks")
    parser.add_argument("--output-dir", type=Path, default=ROOT / "build" / "notebooks")
    options = parser.parse_args()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    paths = options.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    with ThreadPoolExecutor(2) as pool:
        errors = [one for one in pool.map(lambda path: execute(path, options.output_dir), paths) if one]
    sys.exit("\n".join(errors) or 0)


def execute(path: Path, output_dir: Path) -> str | None:
    """Execute a notebook and write its copy; return the message of an error."""
    notebook = nbformat.read(path, as_version=4)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        client = NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": directory}}
        )
        try:
            client.execute()
        except CellExecutionError as error:
            return f"{path}: {error}"
    nbformat.write(notebook, output_dir / path.name)
    print(f"{path.name}: {time.monotonic() - start:.0f} s")
    return None


if __name__ == "__main__":
    main()
