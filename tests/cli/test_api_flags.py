"""Tests of the generation of flags from the functions and option classes of the API."""

import pytest
from command_runs import all_commands
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import UsageError
from regard.generation.config import Sampling
from regard.generation.repair import Repair
from regard.generation.reranking import MBR


def run(*arguments: str):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)


def call_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict:
    """Return the arguments of `translate_files` for the flags of `regard translate`."""
    received: dict = {}

    def translate_files(**values):
        received.update(values)
        return iter(())

    monkeypatch.setattr("regard.api.translation_files.translate_files", translate_files)
    result = run("translate", "m", *arguments)
    assert result.exit_code == 0, result.exception
    return received


def test_flags_that_are_not_given_are_not_passed(monkeypatch) -> None:
    assert set(call_with(monkeypatch)) == {"models", "needs", "on_message"}


def test_fields_of_option_classes_and_settings_of_the_model_reach_the_function(monkeypatch) -> None:
    values = call_with(monkeypatch, "--sample", "--top-k", "0", "--mbr", "bleu", "--mbr-candidates", "4")
    assert values["sampling"] == Sampling() and values["mbr"] == MBR(utility="bleu", num_candidates=4)
    values = call_with(monkeypatch, "--beam-size", "3", "--no-replace-unk", "--set", "a=1", "--set", "b=2")
    assert (values["beam_size"], values["replace_unk"], values["overrides"]) == (3, False, ["a=1", "b=2"])
    values = call_with(monkeypatch, "--check", "--check-threshold", "0.5", "--check-weight", "2")
    assert values["repair"] == Repair(threshold=0.5, weight=2.0)


def test_help_has_themes_and_ranges_and_at_most_120_columns() -> None:
    shown = run("translate", "--help").output
    text = " ".join(shown.replace("│", " ").split())
    assert Sampling.__dataclass_fields__["top_k"].default.description in text
    assert "Range: from 0 to 10,000,000. Default: 0." in text
    for theme in ("Input", "Search", "Attention", "Computation", "Output"):
        assert f"─ {theme} ─" in shown
    assert max(map(len, shown.splitlines())) == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "m", "--top-k", "0"], "--top-k needs --sample"),
        (["translate", "m", "--top-k", "4", "--seed", "2"], "--top-k and --seed need --sample"),
        (["translate", "m", "--mbr-candidates", "4"], "--mbr-candidates needs --mbr"),
        (["translate", "m", "--sample", "--required-terms", "t"], "--required-terms needs beam search"),
        (["fertility", "s"], "give exactly one of the translations"),
    ],
)  # fmt: skip
def test_options_that_conflict_have_one_message_and_status_2(arguments, message) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError) and result.exception.exit_status == 2
    assert str(result.exception).startswith(message) and "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["translate", "m", "--precision", "float8"], ["float32", "bfloat16"]),
        (["translate", "m", "--engine", "marian"], ["regard", "ctranslate2"]),
        (["translate", "m", "--mbr", "ter"], ["bleu", "chrf"]),
        (["analyze", "attention", "m", "--map", "hat"], ["attention", "leave_one_out"]),
        (["reproduce", "malaviya2018-table1", "--data-dir", "d", "--size", "huge"], ["small", "paper"]),
    ],
)
def test_value_outside_a_fixed_set_is_a_usage_error_with_all_values(arguments, allowed) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and all(value in result.output for value in allowed)


def test_every_flag_has_a_help_text_in_the_fixed_form() -> None:
    for name, command in all_commands().items():
        for parameter in command.params:
            text = getattr(parameter, "help", None) or ""
            assert text[:1].isupper() and text.endswith("."), f"{name} {parameter.name}: {text}"
