"""Tests of the generation of flags from option groups and configuration classes."""

import dataclasses
import inspect
import typing
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import regard.cli
from regard.cli.command import Command, expand_groups, fill_in_settings, given, require_flag, setting
from regard.cli.main import app
from regard.errors import UsageError

SETTINGS = "regard.generation.config.Sampling"


@dataclass(frozen=True)
class Fruit:
    """A group with a required flag, a flag of a configuration class, and a list."""

    panel: ClassVar[str] = "Fruit"

    kind: Annotated[str, typer.Option(help="Kind of fruit.")]
    top_k: Annotated[int | None, setting(f"{SETTINGS}:top_k", "--number")] = None
    stores: Annotated[list[str], typer.Option("--store", help="A store.")] = field(default_factory=list)


def command_with_group(found: list):
    program = typer.Typer()

    @program.command(cls=Command)
    @expand_groups
    def buy(basket: Annotated[str, typer.Argument(help="A basket.")], fruit: Fruit, count: int = 1) -> None:
        """Buy fruit."""
        found.append((basket, fruit, count))

    return program


def run(program, *arguments: str):
    return CliRunner(env={"COLUMNS": "200"}).invoke(program, arguments)


def all_commands() -> dict[str, Command]:
    def walk(command, path: tuple[str, ...]):
        parts = getattr(command, "commands", {})
        for name, part in parts.items():
            yield from walk(part, (*path, name))
        if not parts:
            command.complete()
            yield " ".join(path), command

    return dict(walk(get_command(app), ()))


def test_values_of_a_group_reach_the_command() -> None:
    found: list = []
    program = command_with_group(found)
    assert run(program, "b", "--kind", "apple", "--count", "2").exit_code == 0
    arguments = ["--kind", "pear", "--number", "0", "--store", "x", "--store", "y", "b"]
    assert run(program, *arguments).exit_code == 0
    assert found == [("b", Fruit("apple"), 2), ("b", Fruit("pear", 0, ["x", "y"]), 1)]


def test_missing_required_flag_is_a_usage_error() -> None:
    result = run(command_with_group([]), "b")
    assert result.exit_code == 2 and "--kind" in result.output


def test_flag_that_is_not_given_differs_from_one_with_the_default_value() -> None:
    assert given(Fruit("apple")) == {"kind": "apple", "stores": []}
    assert given(Fruit("apple", 0)) == {"kind": "apple", "top_k": 0, "stores": []}


def test_help_of_a_setting_is_that_of_its_configuration_class() -> None:
    from regard.generation.config import Sampling

    (top_k,) = (one for one in dataclasses.fields(Sampling) if one.name == "top_k")
    shown = " ".join(run(command_with_group([]), "--help").output.replace("│", " ").split())
    assert top_k.default.description in shown
    assert "Range: from 0 to 10,000,000. Default: 0." in shown and "─ Fruit ─" in shown


def test_two_groups_of_a_command_cannot_have_the_same_flag() -> None:
    def buy(one: Fruit, other: Fruit) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name"):
        expand_groups(buy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"top_k": 3, "seed": None}, "--top-k needs --sample"),
        ({"top_k": 0, "seed": 1}, "--top-k and --seed need --sample"),
        ({"top_k": 0, "seed": 1, "top_p": 0.5}, "--top-k, --seed and --top-p need --sample"),
    ],
)
def test_flag_without_the_one_it_depends_on_is_named(values, message) -> None:
    with pytest.raises(UsageError) as caught:
        require_flag("--sample", False, values)
    assert str(caught.value) == message
    require_flag("--sample", True, values)
    require_flag("--sample", False, dict.fromkeys(values))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "m", "--top-k", "0"], "--top-k needs --sample"),
        (["translate", "m", "--mbr-candidates", "4", "--mbr-weighting", "auto"],
         "--mbr-candidates and --mbr-weighting need --mbr"),
        (["translate", "m", "--sample", "--required-terms", "t"], "--required-terms needs beam search"),
        (["align", "--aligner", "a", "--model", "ibm1"], "--aligner uses a trained aligner"),
        (["fertility", "s"], "give exactly one of the translations"),
        (["lm"], "give either a training text or --model"),
        (["report", "m"], "give either --test SOURCE REFERENCE or --config-test"),
        (["evaluate", "--gold-links", "g"], "gold_links and predicted_links"),
    ],
)  # fmt: skip
def test_options_that_conflict_have_one_message_and_status_2(arguments, message) -> None:
    result = run(app, *arguments)
    assert isinstance(result.exception, UsageError) and result.exception.exit_status == 2
    assert str(result.exception).startswith(message) and "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["translate", "m", "--precision", "float8"], ["float32", "bfloat16"]),
        (["translate", "m", "--engine", "marian"], ["regard", "ctranslate2"]),
        (["export", "onnx", "m", "-o", "x"], ["ctranslate2"]),
        (["report", "m", "--attention-maps", "some"], ["links", "all"]),
        (["reproduce", "malaviya2018-table1", "--data-dir", "d", "--size", "huge"], ["small", "paper"]),
        (["config", "--format", "yaml"], ["text", "toml"]),
    ],
)
def test_value_outside_a_fixed_set_is_a_usage_error_with_all_values(arguments, allowed) -> None:
    result = run(app, *arguments)
    assert result.exit_code == 2 and all(value in result.output for value in allowed)


def test_every_flag_has_a_help_text_in_the_fixed_form() -> None:
    for name, command in all_commands().items():
        fill_in_settings(command.params)
        for parameter in command.params:
            text = getattr(parameter, "help", None) or ""
            assert text[:1].isupper() or text.startswith(("auto ", "text: ")), f"{name} {parameter.name}"
            assert text.endswith(".") and "setting:" not in text, f"{name} {parameter.name}: {text}"


def test_type_of_a_flag_is_that_of_its_setting() -> None:
    modules = [module for module in vars(regard.cli).values() if inspect.ismodule(module)]
    groups = {
        group
        for module in modules
        for group in vars(module).values()
        if dataclasses.is_dataclass(group) and isinstance(group, type)
    }
    checked = 0
    for group in groups:
        for entry in dataclasses.fields(group):
            declared = typing.get_args(entry.type)[-1:]
            text = getattr(declared[0] if declared else None, "help", None) or ""
            if text.startswith("setting:"):
                assert _plain(entry.type) in _setting_types(text), f"{group.__name__}.{entry.name}"
                checked += 1
    assert checked > 25


def _plain(hint) -> type:
    """Return the type of a flag, without None and without the elements of a list."""
    kind = next(one for one in (typing.get_args(typing.get_args(hint)[0]) or typing.get_args(hint)))
    return typing.get_origin(kind) or kind


def _setting_types(text: str) -> set[type]:
    """Return the types of a flag that fit the field of a configuration class."""
    home, _, path = text.removeprefix("setting:").partition(" ")[0].partition(":")
    module, _, name = home.rpartition(".")
    hint = getattr(__import__(module, fromlist=[name]), name)
    for key in path.split("."):
        hint = typing.get_type_hints(hint)[key]
    options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    kinds = {typing.get_origin(one) or one for one in options}
    return {{typing.Literal: str, tuple: list}.get(kind, kind) for kind in kinds}
