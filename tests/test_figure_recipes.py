"""The scripts in `recipes/figures`: the numbers of the published figure, and valid pictures."""

import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

SVG = "{http://www.w3.org/2000/svg}"
RECIPES = Path(__file__).parents[1] / "recipes" / "figures"
# The attention weights of Malaviya et al. (2018), Figure 1, computed by bisection.
PUBLISHED = {
    "softmax": ".5217 .3497 .1286, .3610 .4409 .1981, .1820 .2714 .5466, 1.0646 1.0620 .8734",
    "sparsemax": ".70 .30 0, .40 .60 0, 0 .15 .85, 1.10 1.05 .85",
    "constrained softmax": ".5217 .3497 .1286, .3610 .4409 .1981, .1173 .2094 .6732, 1 1 1",
    "constrained sparsemax": ".70 .30 0, .30 .70 0, 0 0 1, 1 1 1",
}


def run_recipe(name: str, output_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, str(output_dir)])
    runpy.run_path(str(RECIPES / name), run_name="__main__")


def check_pictures(output_dir: Path, names: list[str]) -> None:
    assert sorted(path.name for path in output_dir.iterdir()) == names
    for path in output_dir.iterdir():
        assert path.stat().st_size < 300_000
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        assert root.get("role") == "img" and root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")


def test_numbers_of_constrained_attention_equal_the_published_figure(tmp_path, monkeypatch, capsys) -> None:
    run_recipe("constrained_attention.py", tmp_path / "new", monkeypatch)
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        [name, label, *("0" if value == "0" else f"{float(value):.4f}" for value in row.split())]
        for name, rows in PUBLISHED.items()
        for label, row in zip(("1", "2", "3", "sum"), rows.split(","), strict=True)
    ]
    check_pictures(tmp_path / "new", ["rounds.svg", "simplex.svg"])


def test_every_support_of_sparsemax_has_its_name(tmp_path, monkeypatch) -> None:
    run_recipe("softmax_sparsemax.py", tmp_path / "new", monkeypatch)
    check_pictures(tmp_path / "new", ["three-dimensions.svg", "two-dimensions.svg"])
    root = ET.parse(tmp_path / "new" / "three-dimensions.svg")
    labels = [element.text for element in root.iter(f"{SVG}text") if (element.text or "").startswith("{")]
    # The last support is that of softmax everywhere, too.
    assert sorted(labels) == sorted(["{1}", "{2}", "{3}", "{1,2}", "{1,3}", "{2,3}", "{1,2,3}", "{1,2,3}"])
