"""The language check reads every kind of text in Python files."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parent.parent / "tools"


@pytest.fixture
def checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module that checks the files of a temporary directory."""
    spec = importlib.util.spec_from_file_location("check_language", TOOLS / "check_language.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look up their module
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "files", lambda paths: sorted(tmp_path.rglob("*.py")))
    return module


def rules(checker: ModuleType) -> list:
    return [checker.Rule(re.compile(r"\bfoo\b"), "bar", frozenset({"text", "names"}))]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\n# one foo\n", 2),
        ("x = 1  # one foo\n", 1),
        ("def f(x):\n    return x  # one foo\n", 2),
        ("foo_word = 1\n", 1),
        ("fooWord = 1\n", 1),
        ('"""One.\n\nOne foo.\n"""\n', 3),
        ('x = f"{1} foo"\n', 1),
    ],
)
def test_names_comments_and_strings_are_checked(checker: ModuleType, tmp_path: Path, text, line) -> None:
    (tmp_path / "one.py").write_text(text)
    found = list(checker.findings(tmp_path / "one.py", rules(checker), []))
    assert [(place, word) for place, word, _ in found] == [(line, "foo")]


def test_allowed_text_has_no_findings(checker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("food = 1  # a footnote\n")
    assert not list(checker.findings(tmp_path / "one.py", rules(checker), []))


def test_names_that_two_modules_define_are_found(checker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "_private").mkdir()
    (tmp_path / "one.py").write_text("A, B = 1, 2\nC: int = 3\nD = 4\n_E = 5\ndef f(): ...\n")
    (tmp_path / "two.py").write_text("A = 1\nC = 3\n_E = 5\nclass f: ...\nwith open('x') as D: ...\n")
    (tmp_path / "_private" / "three.py").write_text("B = 1\n")
    assert checker.public_names_defined_twice(tmp_path) == {
        name: ["one.py", "two.py"] for name in ("A", "C", "f")
    }
