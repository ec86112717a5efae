"""The scripts in `recipes/figures` write valid pictures."""

import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

SVG = "{http://www.w3.org/2000/svg}"
RECIPES = Path(__file__).parents[1] / "recipes" / "figures"


def run_recipe(name: str, output_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, str(output_dir)])
    runpy.run_path(str(RECIPES / name), run_name="__main__")


def check_pictures(output_dir: Path, names: list[str]) -> None:
    assert sorted(path.name for path in output_dir.iterdir()) == names
    for path in output_dir.iterdir():
        assert path.stat().st_size < 300_000
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        assert root.get("role") == "img" and root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")


def test_pictures_of_constrained_attention_are_valid(tmp_path, monkeypatch) -> None:
    run_recipe("constrained_attention.py", tmp_path / "new", monkeypatch)
    check_pictures(tmp_path / "new", ["rounds.svg", "simplex.svg"])


def test_every_support_of_sparsemax_has_its_name(tmp_path, monkeypatch) -> None:
    run_recipe("softmax_sparsemax.py", tmp_path / "new", monkeypatch)
    check_pictures(tmp_path / "new", ["three-dimensions.svg", "two-dimensions.svg"])
    root = ET.parse(tmp_path / "new" / "three-dimensions.svg")
    labels = [element.text for element in root.iter(f"{SVG}text") if (element.text or "").startswith("{")]
    # The last support is that of softmax everywhere, too.
    assert sorted(labels) == sorted(["{1}", "{2}", "{3}", "{1,2}", "{1,3}", "{2,3}", "{1,2,3}", "{1,2,3}"])
