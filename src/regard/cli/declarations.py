"""Parameters of API functions and fields of option classes, read from their source without an import.

A command takes its flags from the signature and the docstring of the function that it calls. Importing the
function may import PyTorch, which takes seconds, so `--help` reads the source of its module instead: names,
annotations and defaults from the syntax tree, descriptions from the section `Args` or `Attributes` of the
docstring, or from `option(help=...)`.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Declaration", "option_class", "read_class", "read_field", "read_function"]

_PACKAGE = Path(__file__).parents[1]
_ENTRY = re.compile(r" {4}(\w+): (.*)")


@dataclass(frozen=True)
class Declaration:
    """A parameter or a field.

    Attributes:
        name: Its name.
        annotation: The source text of its annotation.
        default: Its default; None if it has none, or if it is not a constant.
        required: Whether it has no default.
        keyword_only: Whether it is a keyword-only parameter.
        help: Its description.
        low: The smallest value; None without a limit.
        high: The largest value; None without a limit.
        module: The module that declares it.
    """

    name: str
    annotation: str
    default: Any
    required: bool
    keyword_only: bool
    help: str
    low: float | None
    high: float | None
    module: str

    def describe(self, note: str = "") -> str:
        """Return the description with a note, the range and the default, as `--help` prints it."""
        # Backticks mark names in docstrings, but not in a terminal.
        plain = self.help.removeprefix("Whether to ").replace("`", "")
        text, _, default = plain.partition(" Default:")
        text = text[:1].upper() + text[1:]
        if not default and isinstance(self.default, str | int | float | tuple | list):
            values = self.default if isinstance(self.default, tuple | list) else [self.default]
            # A flag that is off or on by default shows this by its name.
            default = ",".join(map(str, values)) if not isinstance(self.default, bool) and values else ""
        limits = [
            "" if self.low is None else f"from {self.low:,}",
            "" if self.high is None else f"to {self.high:,}",
        ]
        bounds = " ".join(filter(None, limits))
        default = default.strip().removesuffix(".")
        ends = [bounds and f"Range: {bounds}.", default and f"Default: {default}."]
        return " ".join(filter(None, [text, note, *ends]))


def read_function(target: str) -> list[Declaration]:
    """Return the parameters of a function `module:name`, without `**` parameters."""
    module, _, name = (_home(*target.split(":")) or target).partition(":")
    node = _definition(module, name)
    assert isinstance(node, ast.FunctionDef), target
    helps = _described(node, "Args")
    arguments = [*node.args.posonlyargs, *node.args.args]
    # The defaults belong to the last of the positional parameters.
    absent: list[ast.expr | None] = [None] * (len(arguments) - len(node.args.defaults))
    pairs = [
        *zip(arguments, [*absent, *node.args.defaults], strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return [
        _declare(module, argument.arg, argument.annotation, default, helps.get(argument.arg, ""), i)
        for i, (argument, default) in enumerate(pairs, -len(arguments))
    ]


def read_class(target: str) -> list[Declaration]:
    """Return the fields of a dataclass or a configuration class `module:name`, with those of its bases."""
    module, _, name = target.partition(":")
    node = _definition(module, name)
    assert isinstance(node, ast.ClassDef), target
    fields: dict[str, Declaration] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and (home := _home(module, base.id)):
            fields |= {field.name: field for field in read_class(home)}
    helps = _described(node, "Attributes")
    for entry in node.body:
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name):
            key = entry.target.id
            if "ClassVar" not in ast.unparse(entry.annotation):
                field = _declare(module, key, entry.annotation, entry.value, helps.get(key, ""), 0)
                fields[key] = field
    return list(fields.values())


def read_field(target: str) -> Declaration:
    """Return the field `module.Class:path`, where a path such as `alignment.map` leads into other classes."""
    owner, _, path = target.partition(":")
    module, _, name = owner.rpartition(".")
    key, _, below = path.partition(".")
    field = next(field for field in read_class(f"{module}:{name}") if field.name == key)
    if not below:
        return field
    inner = next(home for word in re.findall(r"\w+", field.annotation) if (home := _home(field.module, word)))
    return read_field(f"{inner.replace(':', '.')}:{below}")


def option_class(declaration: Declaration) -> str | None:
    """Return `module:name` of the option class that a parameter takes; None if it takes another value."""
    name = declaration.annotation.removesuffix(" | None")
    is_class = name.endswith(("Options", "Config")) and name.isidentifier()
    return _home(declaration.module, name) if is_class else None


@cache
def _tree(module: str) -> ast.Module:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _definition(module: str, name: str) -> ast.stmt:
    return next(node for node in _tree(module).body if getattr(node, "name", None) == name)


def _home(module: str, name: str) -> str | None:
    """Return `module:name` of an object that a module defines or imports; None if there is none."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return f"{module}:{name}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            if any(alias.name == name for alias in node.names):
                return _home(str(node.module), name)
    return None


def _declare(
    module: str, name: str, annotation: ast.expr | None, value: ast.expr | None, text: str, position: int
) -> Declaration:
    """Return a declaration; the value of a field is its default, or a call of `option` or `field`."""
    settings: dict[str, Any] = {}
    required = value is None
    if isinstance(value, ast.Call):
        settings = {word.arg or "": _constant(module, word.value) for word in value.keywords}
        required = "default" not in settings and "default_factory" not in settings
        default = settings.get("default")
    else:
        default = None if value is None else _constant(module, value)
    return Declaration(
        name,
        "" if annotation is None else ast.unparse(annotation).strip("'"),
        default,
        required,
        position >= 0,
        settings.get("help") or text,
        settings.get("ge", settings.get("gt")),
        settings.get("le", settings.get("lt")),
        module,
    )


def _constant(module: str, node: ast.expr) -> Any:
    """Return the value of a constant or of the name of one; None for any other expression."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        if not isinstance(node, ast.Name):
            return None
    for statement in _tree(module).body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        )
        if any(isinstance(target, ast.Name) and target.id == node.id for target in targets):
            return _constant(module, statement.value)  # type: ignore[attr-defined]
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("regard."):
            if any(alias.name == node.id for alias in statement.names):
                return _constant(str(statement.module), node)
    return None


def _described(node: ast.FunctionDef | ast.ClassDef, section: str) -> dict[str, str]:
    """Return the descriptions of a section of a docstring by name."""
    lines = iter(inspect.cleandoc(ast.get_docstring(node) or "").splitlines())
    return {} if f"{section}:" not in lines else dict(_entries(lines))


def _entries(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    name, parts = "", []
    for line in lines:
        if not line.strip():
            break
        entry = _ENTRY.fullmatch(line)
        if entry:
            if name:
                yield name, " ".join(parts)
            name, parts = entry[1], [entry[2]]
        else:
            parts.append(line.strip())
    if name:
        yield name, " ".join(parts)
