"""Check the project's text and names for words and constructions that its glossary replaces.

The script reads identifiers, docstrings, comments (also at the end of a line of code) and strings of Python,
and the text of Markdown, HTML, JavaScript and TOML. For each finding it prints the file, the line and a
suggestion. The rules, and the exceptions with their reasons, are in `language.toml`.

    python tools/check_language.py [FILE OR DIRECTORY ...]
    python tools/check_language.py --twice
"""

import argparse
import ast
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = Path(__file__).with_name("language.toml")
SUFFIXES = {".py", ".md", ".toml", ".html", ".j2", ".js", ".css"}


@dataclass(frozen=True)
class Rule:
    """A pattern to avoid, its replacement, and the places where the rule applies (`text`, `names`)."""

    pattern: re.Pattern[str]
    use: str
    places: frozenset[str]


@dataclass(frozen=True)
class Exemption:
    """Files and a pattern within which findings are allowed, with the reason."""

    files: tuple[str, ...]
    pattern: re.Pattern[str]
    reason: str


@dataclass(frozen=True)
class Span:
    """A span of a file: its line number, its kind (`names` or `text`) and its text."""

    line: int
    place: str
    text: str


def read_rules(path: Path = RULES) -> tuple[list[Rule], list[Exemption]]:
    """Return the rules and the exceptions in a TOML file."""
    data = tomllib.loads(path.read_text())
    rules = [
        Rule(re.compile(rf"\b(?:{entry['pattern']})\b", re.IGNORECASE), entry["use"],
             frozenset(entry.get("in", ["text", "names"])))
        for entry in data["rule"]
    ]  # fmt: skip
    exempt = [
        Exemption(tuple(entry["files"]), re.compile(entry["pattern"]), entry["reason"])
        for entry in data.get("exception", [])
    ]
    return rules, exempt


def split_name(name: str) -> str:
    """Return the words of an identifier, separated by spaces."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", name).strip()


def spans_of_python(text: str) -> Iterator[Span]:
    """Yield the names, comments and strings of Python source."""
    seen: set[tuple[int, str]] = set()
    # The text of f-strings has its own token type since Python 3.12.
    middle = getattr(tokenize, "FSTRING_MIDDLE", None)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            words = split_name(token.string)
            if (token.start[0], words) not in seen:
                seen.add((token.start[0], words))
                yield Span(token.start[0], "names", words)
        elif token.type == tokenize.COMMENT:
            yield Span(token.start[0], "text", token.string)
        elif token.type == tokenize.STRING or token.type == middle:
            for number, line in enumerate(token.string.split("\n")):
                yield Span(token.start[0] + number, "text", line)


def spans_of_text(text: str) -> Iterator[Span]:
    """Yield the lines of a text file."""
    for number, line in enumerate(text.split("\n"), 1):
        yield Span(number, "text", line)


def spans(path: Path) -> Iterator[Span]:
    """Yield the name of a file and its spans."""
    yield Span(0, "names", split_name(path.stem))
    text = path.read_text()
    yield from spans_of_python(text) if path.suffix == ".py" else spans_of_text(text)


def findings(path: Path, rules: list[Rule], exempt: list[Exemption]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the matching text and the suggestion of each finding in a file."""
    relative = path.resolve().relative_to(ROOT).as_posix()
    allowed = [entry.pattern for entry in exempt if any(fnmatch.fnmatch(relative, f) for f in entry.files)]
    # One combined pattern skips most spans quickly; the single rules then give the suggestion.
    any_rule = re.compile("|".join(f"(?:{rule.pattern.pattern})" for rule in rules), re.IGNORECASE)
    for span in spans(path):
        if not any_rule.search(span.text):
            continue
        for rule in rules:
            if span.place not in rule.places:
                continue
            for match in rule.pattern.finditer(span.text):
                if not any(
                    found.start() <= match.start() and match.end() <= found.end()
                    for pattern in allowed
                    for found in pattern.finditer(span.text)
                ):
                    yield span.line, match.group(), rule.use


def files(arguments: list[str]) -> list[Path]:
    """Return the text files under the given paths that Git does not ignore."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *arguments],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    return [
        ROOT / name for name in names if name and (ROOT / name).suffix in SUFFIXES and (ROOT / name).exists()
    ]


def public_names_defined_twice(folder: Path) -> dict[str, list[str]]:
    """Return the public names that several modules of a package define, with these modules.

    Packages whose name starts with an underscore are private: the backends of a kernel share its name. Each
    extension has its own description `EXTENSION`.
    """
    homes: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        private = any(part.startswith("_") for part in path.relative_to(folder).parent.parts)
        if private or (path.parent.parent.name == "extensions" and path.name == "__init__.py"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names = [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                # `A, B = 0, 1` defines several names.
                found = (one for target in targets for one in ast.walk(target))
                names = [
                    one.id for one in found if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
                ]
            else:
                names = []
            for name in names:
                if not name.startswith("_"):
                    homes.setdefault(name, []).append(path.relative_to(folder).as_posix())
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def main() -> int:
    """Check the given files, or all; return 1 if there are findings, otherwise 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="files or directories; default: all")
    parser.add_argument("--twice", action="store_true", help="print public names that several modules define")
    options = parser.parse_args()
    if options.twice:
        twice = public_names_defined_twice(ROOT / "src" / "regard")
        print("\n".join(f"{name}: {', '.join(where)}" for name, where in twice.items()))
        return bool(twice)
    rules, exempt = read_rules()
    count = 0
    for path in files(options.paths):
        for line, found, use in findings(path, rules, exempt):
            count += 1
            print(f"{path.relative_to(ROOT)}:{line}: {found!r}; use {use}")
    print(f"{count} findings" if count else "no findings", file=sys.stderr)
    return bool(count)


if __name__ == "__main__":
    raise SystemExit(main())
