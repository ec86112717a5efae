"""A terminal map aligns columns with labels, fits the width, and is blank only at exact zeros."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from regard.plot.heatmap import attention_heatmap
from regard.plot.terminal import terminal_map


def printed(picture, width=80, encoding="utf-8", legend=False, **options):
    """Return the lines that a console prints, the last of which is a legend."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, **options).print(picture)
    file.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    return lines if legend else lines[:-1]


def test_piped_map_has_shaded_characters_and_vertical_labels():
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.3, 0.6], [0.02, 0.0, 0.0]])
    assert printed(terminal_map(weights, ["das", "Haus", "."], ["the", "house", "."]), legend=True) == [
        "        H",
        "      d a",
        "      a u",
        "      s s .",
        "  the ██░░",
        "house   ▒▒▓▓",
        "    . ··",
        "blank 0   ·· <0.05  ░░ <0.25  ▒▒ <0.5  ▓▓ <0.75  ██ more",
    ]


def test_print_of_a_figure_shows_its_map():
    weights = np.array([[0.9, 0.1], [0.0, 0.3]])
    figure = attention_heatmap(weights, ["das", "Haus"], ["the", "house"], "Title").figure()
    terminal = terminal_map(weights, ["das", "Haus"], ["the", "house"])
    assert str(figure).splitlines() == printed(terminal, legend=True) and repr(figure) == "Figure('Title')"


@settings(max_examples=30)
@given(
    st.lists(
        st.sampled_from(["a", "word", "京都", "e\u0301t\u00e9", "\x00\t", "[bold]", "🙂"]),
        min_size=1,
        max_size=30,
    )
)
def test_cells_are_aligned_with_labels_for_any_words(source):
    lines = printed(terminal_map(np.ones((1, len(source))), source, ["京都"]))
    assert lines[-1] == "京都 " + "██" * len(source)
    # The last character of each label starts in the column of its cell.
    place, line = 5, lines[-2]
    for label in source:
        last = [c for c in label.replace("\x00", "�").replace("\t", "�") if cell_len(c)][-1]
        before, taken = 0, ""
        for c in line:
            if before == place and cell_len(c):
                taken = c
                break
            before += cell_len(c)
        assert taken == last
        place += 2


@pytest.mark.parametrize("width", [20, 33, 80])
def test_no_line_exceeds_the_width_and_no_cell_is_lost(width):
    words = [f"word{i}" for i in range(45)]
    lines = printed(terminal_map(np.ones((2, 45)), words, ["a-rather-long-target-word", "b"]), width)
    assert max(map(cell_len, lines)) <= width
    assert sum(line.count("█") for line in lines) == 2 * 2 * 45
    assert lines[0].startswith("source words 1 to ")


def test_background_is_colored_except_at_exact_zeros():
    picture = terminal_map(np.array([[0.0, 1e-9, 1.0]]), ["a", "b", "c"], ["x"])
    line = printed(picture, force_terminal=True, color_system="truecolor", legacy_windows=False)[-1]
    assert line.startswith("x   \x1b[48;2;")
    assert line.count("\x1b[48;2;") == 2


@pytest.mark.parametrize(
    "options", [{"color_system": "standard"}, {"color_system": "truecolor", "no_color": True}]
)
def test_consoles_with_few_or_no_colors_get_characters(options):
    picture = terminal_map(np.array([[1.0]]), ["a"], ["x"])
    line = printed(picture, force_terminal=True, legacy_windows=False, **options)[-1]
    assert line == "x ██"


def test_invalid_weights_are_question_marks():
    assert printed(terminal_map(np.array([[np.nan, -1.0, 3.0]]), ["a", "b", "c"], ["x"]))[-1] == "x ????██"


def test_empty_sentence_gives_a_picture():
    assert printed(terminal_map(np.zeros((0, 1)), ["a"], [])) == [" a"]
    assert printed(terminal_map(np.zeros((1, 0)), [], ["x"])) == ["x "]
