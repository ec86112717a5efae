"""The report page in a browser: search, sorting, maps, keyboard, phone and print layout."""

import re

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

from playwright.sync_api import Locator, Page, expect

from browser.conftest import lines
from made_report import PAIRS, make_page, make_system, stored_weights
from regard.metrics.alignment import AttentionMap, map_difference
from regard.reporting.page import Report, render
from regard.reporting.scores import compute_scores

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(make_page(), encoding="utf-8")
    return path.as_uri()


def cell(place: Locator, row: int, column: int) -> Locator:
    return place.locator(f"rect[data-row='{row}'][data-column='{column}']")


def open_line(page: Page, address: str, line: int) -> Page:
    page.goto(f"{address}#s{line}")
    expect(page.locator(f"#s{line} .detail")).to_be_visible()
    return page


def test_markup_in_text_is_displayed_as_text(page, address):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the text ran: {dialog.message}"))
    page.goto(address)
    cards = page.locator("#list .sentence")
    expect(cards).to_have_count(len(PAIRS))
    for number, (source, reference) in enumerate(PAIRS, 1):
        card = page.locator(f"#s{number}")
        assert card.locator(".source dd").text_content().split() == source.split()
        assert card.locator(".reference dd").text_content().split() == reference.split()
    assert page.locator(".sentence img, .sentence script, h1 b").count() == 0
    expect(page.locator("h1")).to_have_text("Report </title><b>")
    expect(page.locator("#table tbody th").nth(1)).to_have_text("<b>bounded</b>")
    # Only the page itself is requested, apart from its empty icon.
    assert {url for url in requested if not url.startswith("data:")} == {address}
    # Charts are plotted on demand.
    expect(page.locator(".chart")).to_have_count(0)
    page.locator("nav a[href='#charts']").click()
    expect(page.locator(".chart svg").first).to_be_visible()
    page.goto("about:blank")
    page.goto(f"{address}#charts")
    expect(page.locator(".chart svg").first).to_be_visible()


def test_sentences_are_sorted_and_filtered_by_values_and_differences(page, address):
    page.goto(address)
    page.locator("#more summary").click()
    page.locator("#sort").select_option(label="repetitions")
    assert lines(page)[0] == "s1"
    page.locator("#low").fill("1")
    assert lines(page) == ["s1", "s5"]
    page.locator("#of").select_option(label="<b>bounded</b>")
    assert lines(page) == []
    page.locator("#of").select_option(label="<b>bounded</b> − soft")
    page.locator("#low").fill("")
    page.locator("#high").fill("-1")
    assert lines(page) == ["s5", "s1"]
    page.locator("#order").click()
    assert lines(page) == ["s1", "s5"]
    page.locator("#clear").click()
    page.locator("#sort").select_option(label="source length (words)")
    assert lines(page)[0] == "s4"
    page.locator("#sort").select_option(label="attention entropy (nats)")
    # A sentence without this value comes last.
    assert lines(page)[-1] == "s4"


def test_hovered_cell_shows_its_weight_and_zeros_are_white(page, address):
    open_line(page, address, 1)
    map = page.locator("#s1 .regard-map").first
    strong, none = cell(map, 0, 0), cell(map, 0, 1)
    assert none.get_attribute("fill") == "#ffffff" and none.get_attribute("data-weight") == "0"
    assert strong.get_attribute("fill") != "#ffffff"
    strong.hover()
    expect(page.locator("#s1 .value").first).to_have_text("a ← ein 1.00")
    # Links of the aligner are plotted, and can be hidden.
    assert map.locator("circle.link").count() > 0
    page.get_by_role("checkbox", name="word links").uncheck()
    expect(page.locator("#s1 .regard-map circle.link")).to_have_count(0)


def test_two_systems_are_subtracted_if_their_translations_are_equal(page, address):
    open_line(page, address, 1)
    expect(page.locator("#s1 .apart")).to_have_text(
        "The translations differ (word 2 of the translation is “dog” in soft, and “red” in "
        "<b>bounded</b>), so the maps cannot be subtracted: choose “Reference (forced decoding)” to compare "
        "them."
    )
    page.get_by_role("button", name="Reference (forced decoding)").click()
    named = page.locator("#s1 .map").filter(has_text="soft − <b>bounded</b>")
    expect(named).to_have_count(1)
    expect(cell(named, 0, 1)).to_have_attribute("data-weight", re.compile(r"^-0\.37"))


def test_systems_with_and_without_sink_are_subtracted(page, tmp_path):
    same = [reference for _, reference in PAIRS]
    systems = [make_system("soft", 0, same), make_system("sunk", 1, same, sink=True)]
    report = Report("r", "in.txt", "ref.txt", PAIRS, systems, compute_scores(systems, PAIRS, num_resamples=2))
    (tmp_path / "sink.html").write_text(render(report), encoding="utf-8")
    open_line(page, (tmp_path / "sink.html").as_uri(), 1)
    expect(page.locator("#s1 .apart")).to_have_count(0)
    named = page.locator("#s1 .map").filter(has_text="soft − sunk")
    expect(named.locator(".column-label").last).to_contain_text("<sink>")
    cells = named.locator("rect[data-row]")
    found = cells.evaluate_all("all => all.map((one) => Number(one.dataset.weight))")
    # Equals the difference in Python, up to the 8 bits per weight that the page stores.
    words = tuple(PAIRS[0][0].split()), tuple(PAIRS[0][1].split())
    own_maps = [one.sentences[0].own_map for one in systems]
    maps = [AttentionMap(*words, stored_weights(own.weights)) for own in own_maps if own]
    np.testing.assert_allclose(found, map_difference(*maps).weights.ravel(), atol=1e-6)


def test_link_opens_its_sentence_and_keys_move_to_others(page, address):
    open_line(page, address, 5)
    assert page.url.endswith("#s5")
    page.keyboard.press("j")
    expect(page.locator("#s6 .detail")).to_be_visible()
    assert page.url.endswith("#s6") and page.locator(".detail").count() == 1
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#s3 .detail")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("jk haus")
    expect(page.locator("#search")).to_have_value("jk haus")


def test_page_on_a_phone_scrolls_only_vertically(phone, address):
    open_line(phone, address, 1)
    assert phone.evaluate("() => document.documentElement.scrollWidth") == 360
    # The labels of the words stay in view when a large map is scrolled in its box.
    box = phone.locator("#s1 .map-box").first
    box.evaluate("box => { box.style.width = box.style.height = '140px'; box.scrollTo(70, 60); }")
    expect(box.locator("rect[data-row='4'][data-column='4']")).to_be_in_viewport()
    here = box.bounding_box()
    for name, axis in ((".row-label", "x"), (".column-label", "y")):
        assert here[axis] <= box.locator(name).last.bounding_box()[axis] < here[axis] + 100
    expect(box.locator(".row-label").last).to_be_in_viewport()
    phone.locator("#s2 .open").tap()
    expect(phone.locator("#s2 .detail")).to_be_visible()
    assert phone.evaluate("() => document.documentElement.scrollWidth") == 360
