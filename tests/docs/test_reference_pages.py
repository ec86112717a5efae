"""The reference of the site has every public name, option and command of the code."""

import ast
import functools
import re
from pathlib import Path

import pytest
import site_reference
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.config.reference import reference

SOURCE = Path(__file__).parents[2] / "src" / "regard"


@functools.cache
def pages() -> dict[str, str]:
    """Return the pages; not at import, because they import all of regard."""
    return site_reference.pages()


def public_names() -> dict[str, list[str]]:
    """Return `__all__` of each package, read from the source, independently of the generator."""
    packages = {}
    for path in SOURCE.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                module = ".".join(("regard", *path.relative_to(SOURCE).parent.parts))
                packages[module] = ast.literal_eval(node.value)
    packages["regard"] += regard._extension_names()
    return {module: names for module, names in packages.items() if "._" not in module}


def test_every_public_name_has_an_entry() -> None:
    headings = set(re.findall(r"(?:^#+ |heading: )(regard[\w.]+)", "\n".join(pages().values()), re.MULTILINE))
    modules = {**site_reference.public_names(), **public_names()}
    names = {f"{module}.{name}" for module, names in modules.items() for name in names}
    assert len(names) > 250 and names <= headings


def test_every_option_of_a_run_is_on_its_page() -> None:
    tables = reference(regard.RunConfig)
    assert sum(len(table.options) for table in tables) > 150
    text = pages()["reference/options.md"]
    for table in tables:
        section = text.partition(f"{{ #{table.path.replace('[]', '')} }}")[2] if table.path else text
        for option in table.options:
            assert f"\n| `{option.name}` |" in section, (table.path, option.name)


def test_every_command_of_the_help_is_in_the_reference() -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).output
    names = re.findall(r"^│ ([a-z]+) {2,}\S", shown, re.MULTILINE)
    assert len(names) > 20
    headings = re.findall(r"^## regard (\S+)", pages()["reference/commands.md"], re.MULTILINE)
    assert set(names) == set(headings)


@pytest.mark.parametrize("command", ["translate", "analyze attention", "serve"])
def test_every_flag_of_the_help_is_in_the_reference(command) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command.split(), "--help"]).output
    flags = set(re.findall(r"^│ (?:\* +)?(--[a-z][\w-]+)", shown, re.MULTILINE)) - {"--help", "--plugin"}
    section = pages()["reference/commands.md"].partition(f"## regard {command} {{")[2].partition("\n## ")[0]
    assert flags and {flag for flag in flags if f"`{flag}`" not in section} == set()


def test_tensors_in_signatures_of_transformations_have_shapes() -> None:
    import inspect

    for module in ("regard.functional", "regard.nn"):
        for name in site_reference.public_names()[module]:
            value = getattr(__import__(module, fromlist=[name]), name)
            signature = str(inspect.signature(value.forward if inspect.isclass(value) else value))
            assert not re.search(r"(?<!\[)\bTensor\b(?!\[|,)", signature), (name, signature)


def test_http_api_and_json_pages_list_endpoints_and_schemas() -> None:
    http = site_reference.fill("<!-- openapi -->")
    posts = [f"POST /{name}" for name in ("translate", "score", "check", "split")]
    for endpoint in (*posts, "GET /models", "GET /health"):
        assert f"## {endpoint}\n" in http
    schemas = site_reference.fill("<!-- schemas -->")
    found = set(re.findall(r"^\| `(\w+)` \|", schemas, re.MULTILINE))
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    stated = set(re.findall(r'^    schema(?:: ClassVar\[str\])? = "(\w+)"', text, re.MULTILINE))
    assert found - {"schema"} == stated
