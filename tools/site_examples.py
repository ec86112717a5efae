"""Examples of public names for the reference of the site, from `docs/reference/examples/*.py`.

A file has one section for each name. A section starts with a line `# --- regard.functional.sparsemax`; the
code before the first section is common to all of them. `tests/docs/test_name_examples.py` runs them.
"""

import re
from functools import cache
from pathlib import Path

__all__ = ["example", "sections"]

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "reference" / "examples"
START = re.compile(r"^# --- (\S+)\n", re.MULTILINE)


def sections(path: Path) -> tuple[str, dict[str, str]]:
    """Return the common code of a file of examples, and the code of each name."""
    common, *parts = START.split(path.read_text(encoding="utf-8"))
    names = dict(zip(parts[::2], (code.strip() for code in parts[1::2]), strict=True))
    return common, names


@cache
def _examples() -> dict[str, str]:
    return {name: code for path in sorted(EXAMPLES.glob("*.py")) for name, code in sections(path)[1].items()}


def example(name: str) -> str:
    """Return the example of a public name as Markdown; empty if it has none."""
    code = _examples().get(name)
    return f"\n```python\n{code}\n```\n" if code else ""
