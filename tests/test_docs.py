"""Code in the documentation runs, and each expression has the value given in the comment next to it."""

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import doc_blocks
import pytest
import torch

from regard.errors import EXTRAS, missing_extra

DOCS = Path(__file__).parent.parent / "docs"
SOURCE = DOCS.parent / "src"
QUALIFIED_NAME = re.compile(r"(?<![\w/.@:-])regard(?:\.[A-Za-z]\w*)+(?![\w.]*[{*])")


def documented_value(lines: list[str], end: int) -> str | None:
    """Return the value given in the comment after a statement and on the following comment lines."""
    _, found, comment = lines[end - 1].partition("  # ")
    if not found:
        return None
    for line in lines[end:]:
        if not line.startswith("#"):
            break
        comment += " " + line.lstrip("# ")
    return comment


def run(code: str, names: dict[str, object]) -> list[tuple[str, str]]:
    """Execute the code and return the documented and the actual value of every commented expression."""
    lines, pairs = code.splitlines(), []
    for statement in ast.parse(code).body:
        source = ast.unparse(statement)
        documented = documented_value(lines, statement.end_lineno or statement.lineno)
        if isinstance(statement, ast.Expr) and documented is not None:
            pairs.append((documented, repr(eval(source, names))))
        else:
            exec(source, names)
    return pairs


def plain(text: str) -> str:
    """Return the text without white space, which aligns the columns of a matrix."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("page", ["maps.md", "coming_from_entmax.md", "hugging_face_attention.md"])
def test_documented_values_are_correct(page) -> None:
    if page.startswith("hugging_face"):
        pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
    names: dict[str, object] = {"torch": torch}
    blocks = [block.code for block in doc_blocks.blocks(DOCS / page) if block.language == "python"]
    pairs = [pair for code in blocks for pair in run(code, names)]
    assert len(pairs) > 3
    assert [plain(found) for _, found in pairs] == [plain(documented) for documented, _ in pairs]


def test_names_of_the_package_in_code_and_documentation_exist() -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
    texts = [path.read_text(encoding="utf-8") for path in (*SOURCE.rglob("*.py"), *DOCS.rglob("*.md"))]
    names = {name for text in texts for name in QUALIFIED_NAME.findall(text)}
    style = {"regard.mplstyle", "regard.plot.regard"}  # a file, and its name for matplotlib
    group = {"regard.plugins"}  # the group of entry points
    for name in sorted(names - style - group):
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ImportError):
            pytest.fail(f"{name} does not exist")


def test_every_extra_that_a_message_names_is_declared() -> None:
    declared = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = (path.read_text(encoding="utf-8") for path in (DOCS.parent / "src").rglob("*.py"))
    named = {name for text in texts for name in re.findall(r"pip install 'regard\[(\w+)\]'", text)}
    assert named and named <= set(declared)
    for extra, modules in EXTRAS.items():
        for module in modules.split():
            assert any(entry.startswith(module.replace("_", "-")) for entry in declared[extra]), module
    assert missing_extra(ModuleNotFoundError(name="torch._C")) is None  # of an installed package


def test_picture_of_the_architecture_is_up_to_date() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(root / "tools" / "architecture.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
