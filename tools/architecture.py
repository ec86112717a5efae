"""Write the picture of the package in docs/architecture.md from the code: its floors and its packages.

    python tools/architecture.py [--check]

The floors are those of the import contract in pyproject.toml; a package imports only from floors below its
own. The descriptions are the first lines of the packages' docstrings. With `--check`, the script changes
nothing and exits with status 1 if the picture is not up to date.
"""

import argparse
import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- floors -->\n", "<!-- end of floors -->"


def main() -> None:
    """Write or check the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="exit with status 1 if the page is out of date")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    made = f"{before}{START}{picture()}{END}{after}"
    if options.check:
        sys.exit(0 if made == page else f"{PAGE}: not up to date: run python tools/architecture.py")
    PAGE.write_text(made, encoding="utf-8")


def picture() -> str:
    """Return the floors as text, from the top to the ground."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    lines = ["```text\n"]
    for layer in layers:
        for name in re.findall(r"\w+", layer):
            lines.append(f"{name:18} {description(name)}\n")
        lines.append("─" * 100 + "\n")
    return "".join([*lines[:-1], "```\n"])


def description(name: str) -> str:
    """Return the first line of the docstring of a package or a module."""
    package, module = (ROOT / "src" / "regard" / suffix for suffix in (f"{name}/__init__.py", f"{name}.py"))
    source = (package if package.is_file() else module).read_text(encoding="utf-8")
    text = ast.get_docstring(ast.parse(source)) or ""
    return text.split("\n\n")[0].replace("\n", " ").removesuffix(".")


if __name__ == "__main__":
    main()
