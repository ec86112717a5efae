"""The summary, the downloads, the color scales and the dark maps of the report page in a browser."""

import csv
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

from playwright.sync_api import Page, expect

from browser.conftest import lines
from made_report import PAIRS, make_report
from regard.metrics.base import Estimate
from regard.metrics.by_length import SystemScore
from regard.reporting.page import render
from regard.reporting.word_maps import quantize

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> str:
    """Return the address of a report whose errors are found by comparison with the reference."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(replace(make_report(), date="2026-01-31")), encoding="utf-8")
    return path.as_uri()


def fills(page: Page) -> list[str]:
    """Return the colors of the cells of the first map of the first sentence."""
    cells = page.locator("#s1 .regard-map").first.locator("rect[data-row]")
    return cells.evaluate_all("all => all.map((cell) => cell.getAttribute('fill'))")


def lightness(color: str) -> int:
    """Return the sum of the parts of a color, from 0 to 765."""
    if color.startswith("#"):
        return sum(int(color[i : i + 2], 16) for i in (1, 3, 5))
    return sum(map(int, re.findall(r"\d+", color)))


def save(page: Page, button: str, path: Path) -> Path:
    with page.expect_download() as waiting:
        page.locator(button).first.click()
    waiting.value.save_as(path)
    return path


def test_summary_counts_sentences_by_comparison_with_the_reference(page, compared):
    page.goto(compared)
    expect(page.locator("#about")).to_have_text(
        "January 31, 2026 · 6 sentences of in.txt, references: ref.txt · 1 note"
    )
    # Lines 2, 3 and 6 drop words, lines 1 and 5 repeat words.
    expect(page.locator(".verdict").first).to_have_text("soft: 3 of 6 sentences drop a word, 2 repeat one.")
    expect(page.locator(".verdict").nth(1)).to_have_text(
        "<b>bounded</b>: none of the 6 sentences drops or repeats a word."
    )
    expect(page.locator("#verdicts")).to_contain_text("By comparison with the reference")
    page.locator(".verdict .tally").nth(1).click()
    assert sorted(lines(page)) == ["s1", "s5"]
    expect(page.locator("#of")).to_have_value("0")


def test_headline_names_the_significantly_better_systems(page, tmp_path):
    report, path = make_report(), tmp_path / "report.html"
    first, gain = SystemScore(9, (8, 10)), Estimate(1, 0, 2)
    # Of three comparisons of a score, Holm's method multiplies the smallest p by 3, the next one by 2.
    p_values = {"bleu": (0.01, 0.04, 0.5), "rep": (0.01, 0.2, 0.3)}
    for names, sentence in (
        ("a", "a has BLEU 9.00 (8.00 to 10.00) and REP 9.00 (8.00 to 10.00), with 95 % intervals."),
        (
            "abcd",
            "Compared with a, b is significantly better in BLEU (+1.00), p = 0.030, and worse in REP "
            "(+1.00), p = 0.030; c does not differ significantly in BLEU or REP, p ≥ 0.080; d does not "
            "differ significantly in BLEU or REP, p ≥ 0.400.",
        ),
    ):
        systems = [replace(report.systems[0], name=name) for name in names]
        table = {
            key: [first, *(SystemScore(10, (9, 11), gain, p) for p in values)][: len(names)]
            for key, values in p_values.items()
        }
        scores = replace(report.scores, table=table, sentence_scores={}, attention=[None] * 4, by_length={})
        path.write_text(render(replace(report, systems=systems, scores=scores)), encoding="utf-8")
        page.goto(path.as_uri())
        expect(page.locator("#headline")).to_have_text(sentence)


def test_tables_are_downloaded_as_csv(page, compared, tmp_path):
    page.goto(compared)
    page.locator("#more summary").click()
    page.locator("#sort").select_option(label="line number")
    path = save(page, "#downloads button >> text=Sentences", tmp_path / "sentences.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(PAIRS)
    # Texts with quotation marks and markup are kept.
    sources = [row["source"] for row in rows if row["system"] == "soft"]
    assert sources == [" ".join(source.split()) for source, _ in PAIRS]
    assert [row["repetitions"] for row in rows if row["line"] == "1"] == ["6", "0"]
    # The browser remembers which lines are reviewed, and the tables have the listed lines.
    page.locator("#s2 .review input").check()
    page.locator("#s5").focus()
    page.keyboard.press("r")
    page.locator("#s2 .review input").uncheck()
    page.reload()
    page.locator("#more summary").click()
    page.locator("#state").select_option("reviewed")
    assert lines(page) == ["s5"]
    for kind in ("TSV", "JSONL"):
        path = save(page, f"#downloads button >> text={kind}", tmp_path / kind)
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = map(json.loads, file) if kind == "JSONL" else csv.DictReader(file, dialect="excel-tab")
            rows = [(int(row["line"]), int(row["reviewed"]), row["source"]) for row in table]
        assert rows == [(5, 1, PAIRS[4][0])] * 2
    # A damaged value in the storage is ignored.
    page.evaluate("() => Object.keys(localStorage).forEach((key) => localStorage.setItem(key, '{'))")
    page.reload()
    page.locator("#more summary").click()
    # Spreadsheets do not evaluate a name as a formula.
    page.evaluate("() => { reportData.data.systems[1].name = '=1'; }")
    path = save(page, "#downloads button >> text=Scores", tmp_path / "scores.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        scores = {row["system"]: row for row in csv.DictReader(file)}
    assert float(scores["'=1"]["BLEU"]) == 100 and scores["soft"]["BLEU difference"] == ""


def test_figures_are_downloaded_in_light_colors_and_maps_follow_the_mode(opened, compared, tmp_path):
    page = opened(color_scheme="dark", accept_downloads=True)
    page.goto(f"{compared}#s1")
    expect(page.locator("#s1 .regard-map").first).to_be_visible()
    page.locator("#charts summary").click()
    before = fills(page)
    for place in (".chart", "#s1 .map"):
        root = ElementTree.parse(save(page, f"{place} >> text=SVG", tmp_path / "figure.svg")).getroot()
        background = next(one for one in root if one.tag.endswith("rect"))
        assert root.tag.endswith("svg") and background.get("fill") == "#ffffff"
        # Styles are attributes, because the file has no style sheet.
        texts = [one for one in root.iter() if one.tag.endswith("}text")]
        assert texts and all(lightness(one.get("fill", "#ffffff")) < 400 for one in texts)
        content = save(page, f"{place} >> text=PNG", tmp_path / "figure.png").read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 1000
    # The page keeps its own colors.
    assert fills(page) == before
    # In dark mode, a large weight is light, and 0 is darker than all weights.
    assert lightness(before[0]) > 600 and lightness(before[1]) < 100
    page.locator("#theme").click()
    expect(page.locator("#s1 .regard-map rect[data-column='1']").first).to_have_attribute("fill", "#ffffff")
    assert lightness(fills(page)[0]) < 200
    page.locator("#theme").click()
    page.emulate_media(media="print")
    expect(page.locator("#s1 .regard-map rect[data-column='1']").first).to_have_attribute("fill", "#ffffff")


def test_scales_distinguish_small_weights(page, tmp_path):
    report = make_report()
    first = report.systems[0].sentences[0]
    weights = first.own_map.weights.copy()
    weights[0] = quantize(np.array([0.97, 0.02, 0.002, 0.0002, 0.0]))
    sentence = replace(first, own_map=replace(first.own_map, weights=weights))
    system = replace(report.systems[0], sentences=(sentence, *report.systems[0].sentences[1:]))
    path = tmp_path / "report.html"
    path.write_text(render(replace(report, systems=[system, report.systems[1]])), encoding="utf-8")
    page.goto(f"{path.as_uri()}#s1")
    expect(page.locator("#s1 .regard-map").first).to_be_visible()

    def steps() -> list[int]:
        shades = [lightness(color) for color in fills(page)[:5]]
        return [after - before for before, after in itertools.pairwise(shades)]

    linear = steps()
    assert all(step > 0 for step in (linear[0], linear[3])) and max(linear[1:3]) < 20
    scale = page.locator("#s1 .map-scale")
    scale.select_option("log")
    assert min(steps()) > 30
    ticks = page.locator("#s1 .regard-map").first.locator(".scale text")
    assert ticks.all_text_contents() == ["0", "0.001", "0.01", "0.1", "1"]
    scale.select_option("sqrt")
    assert steps()[1] > linear[1] and ticks.nth(1).text_content() == "0.01"
    # Exactly 0 is white on every scale.
    assert fills(page)[4] == "#ffffff"
    page.locator("#s1 .regard-map rect[data-row='0'][data-column='3']").first.hover()
    expect(page.locator("#s1 .value").first).to_contain_text("0.0002")
