"""Marks of a detector in the report and the served page: words, probabilities, order, dark colors, phone."""

from dataclasses import replace

import pytest

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")

from playwright.sync_api import Page, expect

from browser.conftest import lines, serve
from checked_text import TEXTS, made_check
from extensions.serve.served import save_model
from made_report import PAIRS, make_report
from regard.extensions.check.findings import HEADER
from regard.extensions.check.page import check_report
from regard.extensions.check.server import CheckServer
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import load_engines
from regard.reporting.page import PageCheck, render

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> str:
    """Return the address of the page of a check."""
    path = check_report(made_check(), tmp_path_factory.mktemp("page") / "check.html", "<i>out.en</i>")
    return path.as_uri()


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> str:
    """Return the address of a report on two systems with references, with the same check for both."""
    records = made_check(PAIRS).to_dict()["sentences"]
    words = {"error": "name", "side": "source", "start": 4, "end": 9, "probability": 0.8}
    records[4] |= {"mismatches": [words], "probabilities": {**records[4]["probabilities"], "name": 0.8}}
    page = replace(make_report(), check=PageCheck("made", 0.5, [records, [None, *records[1:]]]))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(page), encoding="utf-8")
    return path.as_uri()


def test_page_of_a_check_has_marked_findings_and_the_highest_risk_first(page, checked):
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the text ran: {dialog.message}"))
    page.goto(checked)
    assert lines(page) == ["s4", "s1", "s2", "s3"]
    expect(page.locator("h1")).to_have_text("Check of <i>out.en</i>")
    assert page.locator("#s1 .texts .mark.omission").all_text_contents() == ["roter"]
    assert page.locator("#s3 .texts .mark").all_text_contents() == ["schläft"]
    tip = str(page.locator("#s1 .texts .mark").get_attribute("title"))
    assert tip == "Probably not translated (omission, 90 %, major)"
    # A finding in the whole text has no mark, only its tag. Texts keep characters beyond the basic plane.
    assert page.locator("#s4 .texts .mark").count() == 0
    assert page.locator("#s4 .tag").all_text_contents() == ["unrelated 97 %, critical"]
    for number, texts in enumerate(TEXTS, 1):
        assert tuple(page.locator(f"#s{number} .texts bdi").all_text_contents()) == texts


def test_segments_are_filtered_by_type_severity_and_words(page, checked):
    page.goto(checked)
    cases = ("kinds", "omission", ["s4"]), ("severities", "critical", ["s1", "s2", "s3"])
    for control, value, shown in cases:
        page.locator(f"#{control} [value={value}]").uncheck()
        assert lines(page) == shown
        page.locator("#clear").click()
    page.locator("#order").select_option("text")
    assert lines(page) == ["s1", "s2", "s3", "s4"]
    page.locator("#search").fill("RUNS hund")
    assert lines(page) == ["s1"]
    # The link to a segment that the filters hide shows all segments.
    page.evaluate("location.hash = '#s3'")
    expect(page.locator("#s3")).to_be_focused()
    expect(page.locator("#count")).to_have_text("4 of 4 segments")


def test_findings_are_accepted_by_keys_and_downloaded_for_ignore(page, tmp_path):
    check, accepted = made_check(), tmp_path / "accepted.txt"
    findings = check.findings()
    accepted.write_text(f"{findings[3].key}\n")
    page.goto(check_report(check, tmp_path / "check.html", ignore=accepted).as_uri())
    assert lines(page) == ["s1", "s2", "s3"]
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("c")
    context = page.locator("#s2 .context")
    assert context.first.locator("bdi").all_text_contents() == list(TEXTS[0])
    assert context.last.locator("bdi").all_text_contents() == [*TEXTS[2], *TEXTS[3]]
    page.keyboard.press("Escape")
    expect(context).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("a")
    expect(page.locator("#s1 input")).to_be_checked()
    page.locator("#s2 input").check()
    page.locator("#s2 input").uncheck()
    # The browser remembers the accepted findings.
    page.reload()
    assert lines(page) == ["s2", "s3"]
    expect(page.locator("#progress")).to_have_text("2 of 4 findings accepted")
    with page.expect_download() as download:
        page.locator("#download").click()
    download.value.save_as(accepted)
    keys = sorted(findings[number].key for number in (0, 3))
    assert accepted.read_text() == HEADER + "".join(f"{key}\n" for key in keys)
    page.locator("#state").select_option("accepted")
    assert lines(page) == ["s4", "s1"]


def test_segments_of_a_large_text_are_rendered_when_they_come_near(page, tmp_path):
    page.goto(check_report(made_check([("ein Hund", "a dog")] * 3000), tmp_path / "check.html").as_uri())
    page.locator("#state").select_option("all")
    assert len(lines(page)) < 300
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator("#s2999")).to_be_attached()
    assert len(lines(page)) < 600


def test_report_shows_the_marks_of_a_detector_or_those_against_the_reference(page, compared):
    page.goto(compared)
    page.locator("#more summary").click()
    source = page.locator("#s6 .source")
    assert source.locator(".mark").count() == 0 and source.locator(".dropped").count() == 0
    # Both systems were checked, and the tooltip names them; the first line of the second was not.
    tip = str(page.locator("#s2 .source .mark").get_attribute("title"))
    assert "soft 70 %" in tip and "<b>bounded</b> 70 %" in tip
    assert "bounded" not in str(page.locator("#s1 .source .mark").get_attribute("title"))
    # Changed names are marked and counted as other errors are.
    assert page.locator("#s5 .source .mark.changed").all_text_contents() == ["Haus"]
    expect(page.locator(".verdict").first).to_contain_text(", 1 changes a name, ")
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
