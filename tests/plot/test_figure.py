"""Files of figures: the same in every run, readable text, and one clear error without matplotlib."""

import re
import sys
import xml.etree.ElementTree as ET

import matplotlib
import pytest
from matplotlib.figure import Figure as MatplotlibFigure

from regard.errors import DataError, UsageError
from regard.plot.figure import FORMATS, Figure
from regard.plot.style import matplotlib_style, new_figure

SVG = "{http://www.w3.org/2000/svg}"


def chart(label="words & $tokens$", title="<title>"):
    def plot():
        figure = new_figure(2, 1)
        ax = figure.subplots()
        ax.plot([1, 2], [0, 1], "o-")
        ax.set_xlabel(label)
        return figure

    return Figure(title, 'an "account"', plot)


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_are_the_same_in_every_run_and_with_any_settings(file_format):
    before = dict(matplotlib.rcParams)
    first = chart().render(file_format)
    assert dict(matplotlib.rcParams) == before
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "x", "lines.linewidth": 9}):
        assert chart().render(file_format) == first
    assert b"2026" not in first and b"Date" not in first


def test_svg_has_text_a_title_and_a_description():
    root = ET.fromstring(chart().svg)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "<title>"
    assert root.findtext(f"{SVG}desc") == 'an "account"'
    assert "words & $tokens$" in [text.text for text in root.iter(f"{SVG}text")]
    assert "DejaVu Sans" in chart().svg


def test_pdf_embeds_truetype_fonts():
    content = chart().render("pdf")
    assert content.startswith(b"%PDF") and b"FontFile2" in content and b"/Type3" not in content


def test_characters_without_a_font_do_not_fail():
    for label in ("日本語", "\U0001f600", "\ue000"):
        assert chart(label).render("pdf") and label in chart(label).svg


def test_wrong_formats_and_places_are_rejected(tmp_path):
    with pytest.raises(UsageError, match=r"\.svg, \.pdf or \.png, not as \.jpg"):
        chart().save(tmp_path / "one.jpg")
    with pytest.raises(UsageError, match="no format"):
        chart().render("jpg")
    with pytest.raises(DataError, match="nowhere"):
        chart().save(tmp_path / "nowhere" / "one.svg")


def test_missing_matplotlib_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'regard[plot]'")):
        chart().render("svg")


def test_style_file_can_be_used_by_its_name():
    import matplotlib.style

    with matplotlib.style.context("regard.plot.regard"):
        own = matplotlib.rcParams["axes.titleweight"], matplotlib.rcParams["svg.fonttype"]
    with matplotlib_style():
        assert own == (matplotlib.rcParams["axes.titleweight"], matplotlib.rcParams["svg.fonttype"])
    assert own == ("bold", "none")


def test_figure_can_be_changed_before_it_is_saved():
    figure = chart()
    assert isinstance(figure.matplotlib, MatplotlibFigure)
    figure.matplotlib.axes[0].set_title("changed")
    assert "changed" in figure.svg
