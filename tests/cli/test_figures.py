"""`regard figures`: pictures and a table of the numbers that the maps give."""

import json
import xml.etree.ElementTree as ET

import pytest
import typer
from typer.testing import CliRunner

from regard.cli.figures import figures
from regard.errors import DataError, UsageError

SVG = "{http://www.w3.org/2000/svg}"
# Malaviya et al. (2018), Figure 1, by bisection.
PRINTED = {
    "softmax": [
        [0.5217, 0.3497, 0.1286],
        [0.3610, 0.4409, 0.1981],
        [0.1820, 0.2714, 0.5466],
        [1.0646, 1.0620, 0.8734],
    ],
    "sparsemax": [[0.70, 0.30, 0], [0.40, 0.60, 0], [0, 0.15, 0.85], [1.10, 1.05, 0.85]],
    "constrained softmax": [
        [0.5217, 0.3497, 0.1286],
        [0.3610, 0.4409, 0.1981],
        [0.1173, 0.2094, 0.6732],
        [1, 1, 1],
    ],
    "constrained sparsemax": [[0.70, 0.30, 0], [0.30, 0.70, 0], [0, 0, 1], [1, 1, 1]],
}


def run(*arguments):
    app = typer.Typer()
    app.command()(figures)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    return folder, run("simplex", "-o", folder, "--table", "--json", folder.parent / "numbers.json")


def test_the_table_is_that_of_the_figure(made) -> None:
    lines = [line.split("\t") for line in made[1].stdout.splitlines()]
    assert lines[0] == ["map", "round", "word 1", "word 2", "word 3", "bound 1", "bound 2", "bound 3"]
    expected = [
        [name, label, *(f"{value:.4f}" if value else "0" for value in row)]
        for name, rows in PRINTED.items()
        for label, row in zip(("1", "2", "3", "sum"), rows, strict=True)
    ]
    assert [line[:5] for line in lines[1:]] == expected
    assert lines[11][5:] == ["0.1173", "0.2094", "0.6732"]  # exactly what is left: nothing to choose


def test_the_numbers_go_to_a_file_unrounded(made) -> None:
    numbers = json.loads((made[0].parent / "numbers.json").read_text())
    assert list(numbers["maps"]) == list(PRINTED)
    for name, rows in PRINTED.items():
        found = numbers["maps"][name]
        for row, printed in zip([*found["rounds"], found["cumulative"]], rows, strict=True):
            assert row == pytest.approx(printed, abs=5e-5)
    flat = numbers["two_dimensions"]
    assert flat["sparsemax"] == pytest.approx([min(1, max(0, (t + 1) / 2)) for t in flat["difference"]])


def test_every_picture_is_well_formed_small_and_described(made) -> None:
    pictures = sorted(made[0].iterdir())
    names = ["rounds.svg", "simplex.svg", "three-dimensions.svg", "two-dimensions.svg"]
    assert [picture.name for picture in pictures] == names
    for picture in pictures:
        assert picture.stat().st_size < 60_000
        root = ET.fromstring(picture.read_text(encoding="utf-8"))
        assert root.get("role") == "img"
        assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
        assert not {"script", "style", "image"} & {element.tag.removeprefix(SVG) for element in root.iter()}


def test_pictures_are_named_on_standard_error_and_the_table_is_on_request(tmp_path) -> None:
    result = run("simplex", "--output", tmp_path)
    assert result.exit_code == 0 and result.stdout == ""
    assert str(tmp_path / "simplex.svg") in result.stderr


def test_an_unknown_figure_is_refused_with_those_there_are(tmp_path) -> None:
    result = run("simplx", "-o", tmp_path / "new")
    assert isinstance(result.exception, UsageError) and "simplex" in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = run("simplex", "-o", tmp_path / "file" / "folder")
    assert isinstance(result.exception, DataError) and "folder" in str(result.exception)
