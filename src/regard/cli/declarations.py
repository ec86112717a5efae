"""Parameters of API functions and fields of option classes, read from their source without an import.

A command takes its flags from the signature and the docstring of the function that it calls. Importing the
function may import PyTorch, which takes seconds, so `--help` reads the source of its module instead: names,
annotations and defaults from the syntax tree, descriptions from the section `Args` or `Attributes` of the
docstring, or from `option(help=...)`.
"""

import ast
import inspect
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_SEARCH = "regard.generation.config"


@dataclass(frozen=True)
class Declaration:
    """A parameter or a field.

    Attributes:
        name: Its name.
        annotation: The source text of its annotation.
        default: Its default; None if it has none, or if it is not a constant.
        required: Whether it has no default.
        help: Its description.
        low: The smallest value; None without a limit.
        high: The largest value; None without a limit.
        module: The module that declares it.
    """

    name: str
    annotation: str
    default: Any
    required: bool
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
            "" if self.low is None else f"from {self.low:,}".removesuffix(".0"),
            "" if self.high is None else f"to {self.high:,}".removesuffix(".0"),
        ]
        bounds = " ".join(filter(None, limits))
        default = default.strip().removesuffix(".")
        ends = [bounds and f"Range: {bounds}.", default and f"Default: {default}."]
        return " ".join(filter(None, [text, note, *ends]))


def read_function(target: str) -> list[Declaration]:
    """Return the parameters of a function `module:name`, without `**` parameters."""
    module, node = _find(*target.split(":")) or ("", None)
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
        _declare(module, argument.arg, argument.annotation, default, helps.get(argument.arg, ""))
        for argument, default in pairs
    ]


def read_class(target: str) -> list[Declaration]:
    """Return the fields of a dataclass or a configuration class `module:name`, with those of its bases."""
    module, node = _find(*target.split(":")) or ("", None)
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
                field = _declare(module, key, entry.annotation, entry.value, helps.get(key, ""))
                fields[key] = field
    return list(fields.values())


def read_setting(name: str) -> Declaration:
    """Return an argument of `regard.load`: one of its own, or a search setting, which it passes on."""
    own = {declaration.name: declaration for declaration in read_function("regard.api.translator:load")}
    if name in own:
        return own[name]
    nested = _constant(_SEARCH, ast.Name("_NESTED_OPTIONS"))
    outer, field = nested.get(name, ("", name))
    fields = {declaration.name: declaration for declaration in read_class(f"{_SEARCH}:GenerationConfig")}
    if outer:
        (home,) = filter(
            None, (_home(_SEARCH, word) for word in re.findall(r"\w+", fields[outer].annotation))
        )
        fields = {declaration.name: declaration for declaration in read_class(home)}
    if field not in fields:
        fields = {declaration.name: declaration for declaration in read_class(f"{_SEARCH}:SearchOverrides")}
        return replace(fields[name], required=False)
    text = fields[field].help.partition(" Default:")[0]
    return replace(
        fields[field], name=name, required=False, default=None, help=f"{text} Default: that of the model."
    )


def option_class(declaration: Declaration) -> str | None:
    """Return `module:name` of the option class that a parameter takes; None if it takes another value."""
    name = declaration.annotation.removesuffix(" | None")
    home = _home(declaration.module, name) if name.isidentifier() else None
    if home is None or name.endswith(("Options", "Config")):
        return home
    _, node = _find(*home.split(":")) or ("", None)
    decorators = getattr(node, "decorator_list", [])
    return home if any(ast.unparse(decorator) == "configclass" for decorator in decorators) else None


@cache
def _definitions(module: str) -> dict[str, ast.stmt | ast.expr]:
    """Return the first definition of each name: a class, a function, a value, or an import from regard."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    definitions: dict[str, ast.stmt | ast.expr] = {}
    # `ast.walk` visits the statements of the module before those of its functions.
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            definitions.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    definitions.setdefault(target.id, node.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            for alias in node.names:
                definitions.setdefault(alias.name, node)
    return definitions


def _find(module: str, name: str) -> tuple[str, ast.stmt | ast.expr] | None:
    """Return the definition of a class or function, or the value of a name, with the module that has it.

    Imports from regard are followed.
    """
    node = _definitions(module).get(name)
    if isinstance(node, ast.ImportFrom):
        return _find(str(node.module), name)
    return None if node is None else (module, node)


def _home(module: str, name: str) -> str | None:
    """Return `module:name` of a class or function that a module defines or imports; None if there is none."""
    place, node = _find(module, name) or (module, None)
    return f"{place}:{name}" if isinstance(node, ast.stmt) else None


def _declare(
    module: str, name: str, annotation: ast.expr | None, value: ast.expr | None, text: str
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
        _annotation_text(module, annotation),
        default,
        required,
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
        place, value = (_find(module, node.id) if isinstance(node, ast.Name) else None) or (module, None)
        return _constant(place, value) if isinstance(value, ast.expr) else None


def _annotation_text(module: str, annotation: ast.expr | None) -> str:
    """Return the source text of an annotation, with the definitions of aliases such as `Literal[...]`."""

    def expand(match: re.Match[str]) -> str:
        _, value = _find(module, match[0]) or (module, ast.Name(match[0]))
        text = ast.unparse(value)
        return text if text.startswith("Literal[") else match[0]

    text = "" if annotation is None else ast.unparse(annotation).strip("'")
    return text if "Literal[" in text else re.sub(r"\b[A-Z]\w+", expand, text)


def _described(node: ast.FunctionDef | ast.ClassDef, section: str) -> dict[str, str]:
    """Return the descriptions of a section of a docstring by name."""
    _, _, text = inspect.cleandoc(ast.get_docstring(node) or "").partition(f"\n{section}:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", text.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(description.split()) for name, description in entries}
