"""The generated reference of the site: public names, options, commands, JSON results and the HTTP API.

Everything is made from the code, so that no name, option or flag can be missing: `public_names` lists the
names from `__all__`, or else the definitions of a module; options come from the configuration classes,
commands from typer, and the HTTP API from its OpenAPI description.
`tests/docs/test_reference_pages.py` compares the pages with the code.
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import site_examples
from typer.main import get_command

import regard
from regard.config.reference import OptionTable, reference

__all__ = ["api_pages", "command_parameters", "commands", "fill", "option_pages", "pages", "public_names"]

CONTRACTS = (
    "regard.attention.base", "regard.attention.scorers", "regard.models.base", "regard.training.losses.base",
    "regard.text.tokenizers.base", "regard.metrics.base", "regard.extensions.check.base",
    "regard.generation.base",
)  # fmt: skip
"""Modules that define the interfaces of plugins."""

MODULES = ("regard.analyze", "regard.hf", "regard.testing", "regard.errors")
"""Public modules that are no packages."""

API_PAGES = {
    "regard": ("regard",),
    "functional": ("regard.functional",),
    "nn": ("regard.nn",),
    "models": ("regard.models", "regard.attention", "regard.training.losses"),
    "plugins": CONTRACTS,
}
"""Pages of the Python reference and their modules; all others are on the page `modules`."""

TITLES = {"models": "Models and mechanisms", "plugins": "Interfaces of plugins", "modules": "Other modules"}
"""Titles of the pages with several modules."""


@cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of `regard`, its packages, its public modules and its contracts, by module."""
    found = {"regard": tuple(dir(regard))}
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if module.ispkg and not re.search(r"\._", module.name):
            names = getattr(importlib.import_module(module.name), "__all__", ())
            if names:
                found[module.name] = tuple(names)
    for module in (*MODULES, *CONTRACTS):
        names = getattr(importlib.import_module(module), "__all__", None)
        found[module] = _defined_names(module) if names is None else tuple(names)
    return found


def _defined_names(module: str) -> tuple[str, ...]:
    """Return the public names that a module without `__all__` defines, in their order."""
    names: list[str] = []
    for node in ast.parse(inspect.getsource(importlib.import_module(module))).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(name for name in names if not name.startswith("_"))


def home(module: str, name: str) -> str:
    """Return the path of the definition of a public name."""
    if module == "regard":
        # The names are imported lazily from these modules.
        return f"{(regard._HOMES | regard._extension_names()).get(name, 'regard')}.{name}"
    value = getattr(importlib.import_module(module), name)
    defined = getattr(value, "__module__", None)
    is_named = inspect.isclass(value) or inspect.isfunction(value)
    if is_named and isinstance(defined, str) and defined.startswith("regard.") and value.__name__ == name:
        return f"{defined}.{name}"
    return f"{_module_of(module, name)}.{name}"


def _module_of(package: str, name: str) -> str:
    """Return the module from which a package imports a name that is no class or function."""
    source = inspect.getsource(importlib.import_module(package))
    for found in re.finditer(r"^from (\S+) import (\([^)]*\)|[^\n]*)", source, re.MULTILINE):
        if re.search(rf"\b{name}\b", found[2]):
            return found[1]
    return package


def api_pages() -> dict[str, str]:
    """Return the pages of the public names: page and text."""
    made, names = {}, public_names()
    seen: set[str] = set()
    listed = {module for modules in API_PAGES.values() for module in modules}
    others = tuple(module for module in names if module not in listed)
    for page, modules in {**API_PAGES, "modules": others}.items():
        parts = [f"# {TITLES.get(page, modules[0])}"]
        for module in modules:
            first = next((name for name in names[module] if name.islower()), names[module][0])
            start = "import regard" if module == "regard" else f"from {module} import {first}"
            if page in TITLES:
                parts.append(f"## {module}")
            parts += [_docstring(module), f"```python\n{start}\n```"]
            parts.append(_entries(module, names[module], seen, "###" if page in TITLES else "##"))
        made[f"reference/api/{page}.md"] = "\n\n".join(parts)
    return made


def _docstring(module: str) -> str:
    """Return the first paragraph of a module's docstring."""
    return (importlib.import_module(module).__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _entries(module: str, names: tuple[str, ...], seen: set[str], level: str) -> str:
    """Return the entries of names, each with its examples.

    Args:
        module: The module that the names are imported from.
        names: The public names.
        seen: The definitions that have an entry; another entry would have the same address. It is updated.
        level: The marks of a heading.
    """
    parts = []
    for name in names:
        full = f"{module}.{name}"
        value, origin = getattr(importlib.import_module(module), name), home(module, name)
        heading = f"{level} {full} {{ #{full} }}\n"
        if inspect.ismodule(value):
            parts.append(f"{heading}\n{_docstring(full)}\n")
        elif name == "__version__":
            parts.append(f"{heading}\nThe version of the package, a string.\n")
        elif origin in seen:
            parts.append(f"{level} {full}\n\nThe same as [`{origin}`][{origin}].\n")
        else:
            anchor = "" if origin == full else f"[](){{ #{full} }}\n\n"
            options = f"      heading: {full}\n      toc_label: {name}\n      heading_level: {len(level)}\n"
            parts.append(f"{anchor}::: {origin}\n    options:\n{options}")
        seen.add(origin)
        parts.append(site_examples.example(full))
    return "\n".join(part for part in parts if part) + "\n"


def option_pages() -> dict[str, str]:
    """Return the pages of the options of a run and of pre-training."""
    from regard.extensions.hf.pretraining import PretrainConfig

    pages = {
        "options": ("Options of a run", "regard config", regard.RunConfig),
        "pretrain_options": (
            "Options of pre-training", "regard pretrain encoder.toml --output-dir encoders/de", PretrainConfig
        ),
    }  # fmt: skip
    return {
        f"reference/{page}.md": f"# {title}\n\n```sh\n{command}\n```\n\n{_render_markdown(reference(config))}"
        for page, (title, command, config) in pages.items()
    }


def _render_markdown(tables: Iterable[OptionTable]) -> str:
    """Return the reference as Markdown: a section for each table, with its options as a table."""
    parts: list[str] = []
    path = ""

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;")

    for table in tables:
        if table.path != path:
            parts.append(f"## `{table.title}` {{ #{table.key} }}")
            path = table.path
        if table.kind is not None:
            parts.append(f"### `kind = {json.dumps(table.kind)}` {table.default_mark}".rstrip())
        parts.append(cell(table.notes))
        if table.options:
            rows = ["| option | default | type and range | |", "|---|---|---|---|"]
            for option in table.options:
                cells = map(cell, (option.shown_default, option.type, option.help))
                rows.append(f"| `{option.name}` | {' | '.join(cells)} |")
            parts.append("\n".join(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the name and the command of each command, in the order of the help."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        parts = getattr(command, "commands", {})
        for name, part in parts.items():
            yield from walk(part, (*path, name))
        if not parts:
            command.complete()
            yield " ".join(path), command

    from regard.cli.main import app

    yield from walk(get_command(app), ())


def command_parameters(command: Any) -> list[Any]:
    """Return the visible parameters of a command, without `--help`."""
    return [one for one in command.params if not one.hidden and one.name != "help"]


def command_page() -> str:
    """Return the page of all commands."""
    parts = ["# Commands\n\n```sh\nregard --help\n```\n"]
    for name, command in commands():
        first, *rest = (command.help or "").split("\n\n")
        examples, paragraphs = [], [first]
        for paragraph in rest:
            label, found, line = paragraph.replace("\n", " ").partition(": regard ")
            if found and not label.count("."):
                examples.append(f"regard {line}" + ("" if label == "Example" else f"    # {label}"))
            else:
                paragraphs.append(paragraph)
        parts.append(f"## regard {name} {{ #{name.replace(' ', '-')} }}\n")
        if examples:
            parts.append("```sh\n" + "\n".join(examples) + "\n```\n")
        parts += [re.sub(r"\s+", " ", paragraph) + "\n" for paragraph in paragraphs]
        panels: dict[str, list[Any]] = {}
        for parameter in command_parameters(command):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(parameter)
        for panel, members in panels.items():
            rows = [f"| {_flags(one)} | {_escape(_parameter_help(one))} |" for one in members]
            parts.append("\n".join([f"| {panel or 'argument or option'} | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _flags(parameter: Any) -> str:
    """Return the flags of an option, or the name of an argument."""
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`" + ("..." if parameter.nargs == -1 else "")
    return ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))


def _parameter_help(parameter: Any) -> str:
    """Return the description of a parameter, with its default unless the description states it."""
    text = re.sub(r"\s+", " ", parameter.help or "")
    default = parameter.default
    if parameter.required:
        return f"{text} Required." if "Required" not in text else text
    shown = default is not None and not callable(default) and default not in ((), [], False, "")
    if shown and "Default" not in text:
        text += f" Default: `{default}`."
    return text


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def schema_section() -> str:
    """Return a table of the JSON results: every schema with its class."""
    from regard.config.results import Result

    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if re.match(r"regard\.(api|analysis|extensions|generation|plot|training)\.", module.name):
            importlib.import_module(module.name)
    rows = []
    for cls in sorted(_subclasses(Result), key=lambda cls: cls.schema):
        public = cls.__name__ in dir(regard)
        name = f"[regard.{cls.__name__}][{cls.__module__}.{cls.__name__}]" if public else cls.__name__
        first = _escape((cls.__doc__ or "").split("\n")[0])
        rows.append(f"| `{cls.schema}` | {name} | {first} |")
    return "\n".join(["| `schema` | class | content |", "|---|---|---|", *rows])


def _subclasses(cls: type[Any]) -> set[type[Any]]:
    """Return the classes of the package that derive from a class and name their schema."""
    found = {one for one in cls.__subclasses__() if one.__module__.startswith("regard.")}
    return {one for one in found if "schema" in vars(one)} | {
        below for one in found for below in _subclasses(one)
    }


def openapi_section() -> str:
    """Return the endpoints of the HTTP API with the fields of their requests and responses."""
    from regard.extensions.serve.app import create_app
    from regard.extensions.serve.config import ServeConfig

    described = create_app([], ServeConfig()).openapi()
    schemas = described["components"]["schemas"]
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            summary = operation.get("description") or operation.get("summary", "")
            parts.append(f"## {method.upper()} {path}\n\n{summary}\n")
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for title, schema in (("request", body.get("schema")), ("response", _success(operation))):
                if schema and (name := schema.get("$ref", "").rpartition("/")[2]) in schemas:
                    parts.append(_field_table(title, name, schemas[name]))
    for name, schema in schemas.items():
        if schema.get("properties"):
            parts.append(f"### {name} {{ #schema-{name} }}\n\n{_field_table('object', name, schema)}")
    return "\n".join(parts)


def _success(operation: dict[str, Any]) -> dict[str, Any] | None:
    content = operation["responses"].get("200", {}).get("content", {})
    return content.get("application/json", {}).get("schema")


def _field_table(title: str, name: str, schema: dict[str, Any]) -> str:
    """Return the fields of an object of the API as a table."""
    required = schema.get("required", ())
    rows = []
    for field, content in schema.get("properties", {}).items():
        text = _escape(re.sub(r"\s+", " ", content.get("description", "")))
        rows.append(f"| `{field}` | {_json_type(content)} | {'required. ' * (field in required)}{text} |")
    return "\n".join([f"| {title}: `{name}` | type | |", "|---|---|---|", *rows]) + "\n"


def _json_type(schema: dict[str, Any]) -> str:
    """Return the type of a field in JSON, with links to the objects of the API."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name})"
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_json_type(one) for one in choices))
    if schema.get("type") == "array":
        return f"list of {_json_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))


SECTIONS = {"<!-- openapi -->": openapi_section, "<!-- schemas -->": schema_section}
"""Generated parts of written pages, by the comment that they replace."""


def fill(markdown: str) -> str:
    """Return a page with its generated sections."""
    for mark, section in SECTIONS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, section())
    return markdown


@cache
def pages() -> dict[str, str]:
    """Return all generated pages of the reference: page and Markdown."""
    return {
        **api_pages(),
        **option_pages(),
        "reference/commands.md": command_page(),
    }
