"""The code blocks of the documentation, for the tests and for `tools/run_long_examples.py`.

A block is fenced, or indented by four spaces with a blank line before it. A comment in the line above marks a
fenced block: `<!-- long -->` takes minutes and is not run by tests; `<!-- illustration -->` is never run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INSTALLS", "ROOT", "Block", "blocks", "pages", "runnable"]

ROOT = Path(__file__).resolve().parents[1]
INSTALLS = (". activate", "pip ", "pipx ", "uv ", "git ", "python3 -m venv", ". .venv", "cd ")
"""Beginnings of lines that install regard; the gate runs those of the README."""

_MARK = re.compile(r"<!-- (long|illustration) -->")
_COMMAND = re.compile(r"(regard|head|echo|cat|cut|curl|python|torchrun|\(|\.venv/bin/|python3) ?")


@dataclass(frozen=True)
class Block:
    """One block of code.

    Attributes:
        page: The file, relative to the root of the repository.
        line: The number of its first line, from 1.
        language: `sh`, `python`, `toml`, `json` or `text`.
        code: The text.
        mark: `long`, `illustration` or empty.
    """

    page: str
    line: int
    language: str
    code: str
    mark: str = ""


def pages() -> list[Path]:
    """Return the README and all written pages of the site."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    page = path.relative_to(ROOT).as_posix()
    return [Block(page, *found) for found in _find(path.read_text(encoding="utf-8").split("\n"))]


def _find(lines: list[str]) -> Iterator[tuple[int, str, str, str]]:
    number = 0
    while number < len(lines):
        line, start = lines[number], number + 1
        if line.startswith("```"):
            end = next(i for i in range(start, len(lines)) if lines[i].startswith("```"))
            mark = _MARK.fullmatch(lines[number - 1].strip()) if number else None
            code = "\n".join(lines[start:end])
            yield start + 1, line.strip("`").strip() or _language(code), code, mark[1] if mark else ""
            number = end + 1
        elif line.startswith("    ") and number and not lines[number - 1].strip():
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            code = "\n".join(one[4:] for one in lines[number:end]).rstrip()
            yield start, _language(code), code, ""
            number = end
        else:
            number += 1


def _language(code: str) -> str:
    """Return the language of a block without a label."""
    if _COMMAND.match(code):
        return "sh"
    return "toml" if code.startswith("[") and "=" in code else "text"


def runnable(code: str, skipped: tuple[str, ...] = ()) -> str:
    """Return the commands of a block without those that install regard, or that begin with a skipped text."""
    joined = re.sub(r"\\\n\s*", "", code).replace(".venv/bin/", "")
    kept = []
    for line in joined.split("\n"):
        parts = [part for part in line.split(" && ") if not part.strip().startswith((*INSTALLS, *skipped))]
        kept.append(" && ".join(parts))
    return "\n".join(line for line in kept if line.strip())
