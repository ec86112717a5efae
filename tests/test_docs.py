"""The pages of documentation keep their word: code runs, and gives what the comment beside it says."""

import ast
import re
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def promised(lines: list[str], end: int) -> str | None:
    """What the comment after a statement says, with the comments on the lines below."""
    _, found, comment = lines[end - 1].partition("  # ")
    if not found:
        return None
    for line in lines[end:]:
        if not line.startswith("#"):
            break
        comment += " " + line.lstrip("# ")
    return comment


def run(code: str, names: dict[str, object]) -> list[tuple[str, str]]:
    """What was promised and what came, of every bare expression."""
    lines, pairs = code.splitlines(), []
    for statement in ast.parse(code).body:
        source = ast.unparse(statement)
        wanted = promised(lines, statement.end_lineno or statement.lineno)
        if isinstance(statement, ast.Expr) and wanted is not None:
            pairs.append((wanted, repr(eval(source, names))))
        else:
            exec(source, names)
    return pairs


def plain(text: str) -> str:
    """Without the spaces that line up a matrix."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("page", ["maps.md"])
def test_code_in_the_documentation_gives_what_it_says(page) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, object] = {"torch": torch}
    pairs = [pair for block in BLOCK.findall(text) for pair in run(block, names)]
    assert len(pairs) > 10
    assert [plain(found) for _, found in pairs] == [plain(wanted) for wanted, _ in pairs]


@pytest.mark.parametrize("page", ["maps.md"])
def test_pictures_that_a_page_shows_are_there(page) -> None:
    for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / name).is_file(), name
