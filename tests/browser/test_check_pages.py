"""Marks of a detector in the report and the served page: words, probabilities, order, dark colors, phone."""

from dataclasses import replace

import pytest

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

from playwright.sync_api import Page, expect

from browser.conftest import lines, serve
from checked_text import TEXTS, made_check
from extensions.serve.served import save_model
from made_report import PAIRS, make_report
from regard.extensions.check.report import check_report
from regard.extensions.check.server import CheckServer
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import load_engines
from regard.reporting.page import PageCheck, render

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> str:
    """Return the address of a page without references."""
    path = check_report(made_check(), tmp_path_factory.mktemp("page") / "check.html", "<i>out.en</i>")
    return path.as_uri()


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> str:
    """Return the address of a report on two systems with references, with the same check for both."""
    records = made_check(PAIRS).to_dict()["sentences"]
    page = replace(make_report(), check=PageCheck("made", 0.5, [records, [None, *records[1:]]]))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(page), encoding="utf-8")
    return path.as_uri()


def test_page_of_a_check_has_marked_words_and_the_worst_first(page, checked):
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the text ran: {dialog.message}"))
    page.goto(checked)
    assert lines(page) == ["s4", "s1", "s2", "s3"]
    first = page.locator("#s1")
    assert first.locator(".source .mark.omission").all_text_contents() == ["roter"]
    tip = str(first.locator(".source .mark").get_attribute("title"))
    assert "90 %" in tip and "<b>made</b>" in tip
    assert first.locator(".output .word.mark.addition").all_text_contents() == ["runs"]
    # Probable errors of the sentence are tags; the others are below the threshold.
    assert first.locator(".tag").all_text_contents() == ["omitted 90 %"]
    assert page.locator("#s4 .tag").all_text_contents() == ["unrelated 97 %"]
    # Texts keep their own spaces and characters beyond the basic plane.
    for number, (source, target) in enumerate(TEXTS, 1):
        assert page.locator(f"#s{number} .source dd bdi").text_content() == source
        assert page.locator(f"#s{number} .output dd bdi").text_content() == target
    assert page.locator("#s3 .source .mark").all_text_contents() == ["schläft"]
    assert page.locator(".reference").count() == 0
    for hidden in ("#scores", "#charts", "#reference-marks"):
        expect(page.locator(hidden)).to_be_hidden()


def test_threshold_moves_the_marks_and_the_sentences_can_be_sorted_by_each_error(page, checked):
    page.goto(checked)
    expect(page.locator("#s2 .tag")).to_have_text("omitted 70 %")
    page.locator("#from").fill("0.75")
    expect(page.locator("#s2 .mark")).to_have_count(0)
    expect(page.locator("#s1 .source .mark")).to_have_text("roter")
    page.locator("#sort").select_option(label="omission (probability)")
    assert lines(page) == ["s1", "s2", "s3", "s4"]
    page.locator("#clear").click()
    assert lines(page)[0] == "s4"
    page.locator("#s1 .open").click()
    expect(page.locator("#s1 .remarks div").first).to_have_text("probably omittedroter 90 %")


def test_report_shows_the_marks_of_a_detector_or_those_against_the_reference(page, compared):
    page.goto(compared)
    source = page.locator("#s6 .source")
    assert source.locator(".mark").count() == 0 and source.locator(".dropped").count() == 0
    # Both systems were checked, and the tooltip names them; the first line of the second was not.
    tip = str(page.locator("#s2 .source .mark").get_attribute("title"))
    assert "soft 70 %" in tip and "<b>bounded</b> 70 %" in tip
    assert "bounded" not in str(page.locator("#s1 .source .mark").get_attribute("title"))
    page.locator("#by").select_option("reference")
    expect(page.locator(".sentence .mark")).to_have_count(0)
    assert source.locator(".dropped").all_text_contents() == ["schläft"]
    page.locator("#by").select_option("detector")
    expect(page.locator("#s1 .source .mark")).to_have_text("roter")
    page.locator("#s1 .open").click()
    expect(page.locator("#s1 .regard-map").first).to_be_visible()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Yield the address of a server in this process whose detectors need no model."""
    expect.set_options(timeout=15_000)
    path = save_model(tmp_path_factory.mktemp("page") / "model", seed=1, tokenized=True)
    app = create_app(load_engines([path], "cpu"), ServeConfig(), CheckServer(detector="repetition"))
    with serve(app) as address:
        yield address


def fill(page: Page, source: str, target: str) -> None:
    """Enter a text and its translation, and check them."""
    page.locator("#check-source").fill(source)
    page.locator("#check-target").fill(target)
    page.locator("#check").click()


def test_entered_translations_are_checked_line_by_line(page, served):
    page.goto(served)
    page.locator("#to-check").click()
    expect(page.locator("#translator")).to_be_hidden()
    fill(
        page, "ein Hund\n<b>x</b> 👩‍👩‍👧 das rote Haus", "a dog\n<i>y</i> 👩‍👩‍👧 the red house the red house"
    )
    expect(page.locator(".checked")).to_have_count(2)
    worst = page.locator(".checked").first
    expect(worst.locator("b")).to_have_text("Line 2")
    assert worst.locator(".target .mark.repetition").all_text_contents() == ["the", "red", "house"]
    assert worst.locator(".target").text_content() == "<i>y</i> 👩‍👩‍👧 the red house the red house"
    assert "repeated" in str(worst.locator(".tag").text_content())
    expect(page.locator("#check-legend")).to_contain_text("omitted")
    expect(page.locator(".checked").last).to_contain_text("no probable error")
    # Another detector of the server replaces the results.
    page.locator("#detector").select_option("length")
    expect(page.locator(".checked")).to_have_count(0)
    page.locator("#check-target").press("Control+Enter")
    expect(page.locator(".checked")).to_have_count(2)


def test_the_form_is_filled_with_the_translation_of_the_page(page, served):
    page.goto(served)
    page.locator("#text").fill("a b c d")
    expect(page.locator(".card .regard-map").first).to_be_visible()
    page.locator("#to-check").click()
    expect(page.locator("#check-source")).to_have_value("a b c d")
    output = page.locator("#output-0 .sentence").text_content()
    expect(page.locator("#check-target")).to_have_value(str(output))


def test_answers_with_errors_are_marked_in_the_card(page, served):
    def answer(route):
        pairs = route.request.post_data_json["pairs"]
        check = made_check([(pair["source"], pair["target"]) for pair in pairs])
        route.fulfill(json=check.to_dict())

    page.route("**/check", answer)
    page.goto(served)
    page.locator("#text").fill("a b c d")
    expect(page.locator(".row:not(.target-row) .name.mark.omission")).to_have_text("b")
    expect(page.locator(".target-row .name.mark.addition")).to_have_count(1)
    assert "omitted with probability 90 %" in str(page.locator(".name.mark.omission").get_attribute("title"))
    expect(page.locator("#output-0 .sentence.suspect")).to_have_count(1)
