"""The served page in a browser: typing, inspection, fertility bounds, comparison, links, dark mode, phone."""

import json
import re
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("playwright.sync_api")

from playwright.sync_api import expect

from browser.conftest import serve
from extensions.serve.served import SEPARATORS, save_model, without_prefix
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import load_engines

pytestmark = pytest.mark.browser

TEXT = "a b c d e! F g a b c"  # a single letter with a period would be an initial


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Yield the address of a server in this process, with a bounded model and one without bounds."""
    expect.set_options(timeout=15_000)  # long enough for a busy machine
    directory = tmp_path_factory.mktemp("page")
    paths = [
        save_model(directory / "bounded", seed=1, fertility=2.0, tokenized=True),
        save_model(directory / "plain"),
    ]
    with serve(create_app(load_engines(paths, "cpu"), ServeConfig())) as address:
        yield address


def visit(page, address, text=TEXT):
    """Open the page with a text, and wait for its translation.

    The text is in the address, because the page translates typed text only after a pause.
    """
    page.goto(f"{address}#text={quote(text)}")
    expect(page.locator("#output-0 .sentence:not(.waiting)")).to_have_count(len(text.split("!")))
    expect(page.locator(".card .regard-map").first).to_be_visible()
    return page


def test_typed_sentences_are_translated_and_have_maps(page, served):
    page.goto(served)
    page.locator("#text").fill(TEXT)
    expect(page.locator("#output-0 .sentence:not(.waiting)")).to_have_count(2)
    expect(page.locator(".card .regard-map").first).to_be_visible()
    assert all(text.strip() for text in page.locator("#output-0 .sentence").all_inner_texts())
    expect(page.locator("#look-title")).to_have_text("Sentence 1 of 2")
    # The training text is tokenized: five words, a punctuation mark, and the sink.
    expect(page.locator(".row:not(.target-row) .word")).to_have_count(7)
    words = page.locator(".row.target-row .word").count()
    assert page.locator(".regard-map rect[data-row]").count() == 7 * words


def test_page_of_the_api_describes_and_tries_each_operation(page, served):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{served}docs")
    expect(page.locator(".operation h2 code").first).to_have_text("/translate")
    assert {"/translate", "/score", "/check", "/split", "/models"} <= set(
        page.locator(".operation h2 code").all_text_contents()
    )
    assert all(url.startswith(served) for url in requested)
    split = page.locator("#operation-split")
    split.locator("textarea").fill('{"text": "One. Two."}')
    expect(split.locator("pre").first).to_contain_text("""-d '{"text": "One. Two."}'""")
    split.get_by_role("button", name="Send").click()
    expect(split.locator(".answer")).to_contain_text("200")
    expect(split.locator(".answer")).to_contain_text('"text": "Two."')
    fields = page.locator("#operation-translate td code, #operation-translate th code").all_text_contents()
    assert {"text", "num_return", "fertilities"} <= set(fields)


def test_pages_work_under_a_path_prefix(page, tmp_path):
    app = create_app(load_engines([save_model(tmp_path / "model")], "cpu"), ServeConfig())
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    with serve(without_prefix(app, "/mt")) as address:
        visit(page, f"{address}mt/")
        page.get_by_role("link", name="API", exact=True).click()
        split = page.locator("#operation-split")
        expect(split.locator("pre").first).to_contain_text(f"curl {address}mt/split")
        split.get_by_role("button", name="Send").click()
        expect(split.locator(".answer")).to_contain_text("200")
        page.get_by_role("link", name="Translate", exact=True).click()
        expect(page.locator("#model-0 option")).to_have_count(1)
    assert all(url.startswith(f"{address}mt/") for url in requested)


def test_page_joins_sentences_as_the_api_does(page, served):
    page.goto(served)
    script = """async (cases) => {
      const { separator } = await import("./client.js");
      return cases.map(([gap, before, after]) => separator(gap, before, after));
    }"""
    assert page.evaluate(script, SEPARATORS) == [expected for *_, expected in SEPARATORS]


def test_selected_word_shows_its_attention_in_either_direction(page, served):
    visit(page, served)
    word = page.locator(".row:not(.target-row) .name").nth(1)
    word.click()
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".reading")).to_have_text(re.compile("^b → .*received"))
    page.locator(".row.target-row .name").first.click()
    expect(page.locator(".reading")).to_have_text(re.compile("^[A-G<].* ← "))
    expect(word).to_have_attribute("aria-pressed", "false")


def test_fertility_of_zero_removes_attention_and_changes_the_translation(page, served):
    visit(page, served)
    sentence = page.locator("#output-0 .sentence").first
    before = sentence.inner_text()
    handle = page.locator(".handle").nth(0)
    expect(handle).to_have_attribute("aria-valuetext", "model default (at most 2)")
    handle.focus()
    page.keyboard.press("Home")
    expect(page.locator(".handle").nth(0)).to_have_attribute("aria-valuetext", "never")
    expect(sentence).not_to_have_text(before)
    cells = page.locator('.regard-map rect[data-column="0"]')
    expect(cells.first).to_have_attribute("data-weight", "0")
    assert {cell.get_attribute("data-weight") for cell in cells.all()} == {"0"}
    assert "bent=0.0.0.never" in page.url
    # The handle keeps the focus, so that further keys work.
    expect(page.locator(".handle").nth(0)).to_be_focused()
    page.keyboard.press("Delete")
    expect(sentence).to_have_text(before)


def test_maps_of_equal_translations_are_subtracted(page, served):
    # Both models are random, so their translations are replaced by the same one. Only one has a sink.
    def same(route):
        response = route.fetch()
        lines = [json.loads(line) for line in response.text().splitlines()]
        for line in lines:
            for one in [line, *line["alternatives"]] if "alternatives" in line else ():
                one["target_words"], one["text"] = ["A", "B"], "A B"
                rest = [0.25] if line["sink"] else []
                one["word_attention_map"] = [[0.5, 0.25, *rest], [0.25, 0.5, *rest]]
        route.fulfill(response=response, body="".join(json.dumps(line) + "\n" for line in lines))

    page.route("**/translate", same)
    visit(page, served, "a b")
    page.locator("#compare").click()
    map = page.locator(".difference .regard-map")
    expect(map.locator("rect[data-row]")).to_have_count(6)
    weights = map.locator("rect[data-row]").evaluate_all(
        "all => all.map((one) => Number(one.dataset.weight))"
    )
    assert weights == [0, 0, 0.25, 0, 0, 0.25]


def test_link_restores_the_whole_state(page, opened, served):
    visit(page, served)
    page.locator("#compare").click()
    page.locator("#output-0 .sentence").nth(1).click()
    expect(page.locator("#cards .card")).to_have_count(2)
    page.locator(".handle").nth(1).focus()
    page.keyboard.press("Home")
    expect(page.locator(".card.stale")).to_have_count(0)
    expect(page.locator(".card .free")).to_have_count(1)
    other = opened(viewport={"width": 1200, "height": 900})
    other.goto(page.url)
    expect(other.locator("#text")).to_have_value(TEXT)
    expect(other.locator("#cards .card")).to_have_count(2)
    expect(other.locator("#look-title")).to_have_text("Sentence 2 of 2")
    expect(other.locator(".handle").nth(1)).to_have_attribute("aria-valuetext", "never")
    expect(other.locator("#output-0")).to_have_text(page.locator("#output-0").inner_text())
    assert urlsplit(other.url).fragment == urlsplit(page.url).fragment


def test_markup_in_text_is_displayed_as_text(page, served):
    odd = "<img src=x onerror=alert(1)> \u202bab\u202c 👩‍👩‍👧‍👦 e\u0301"
    page.goto(served)
    page.locator("#text").fill(odd)
    expect(page.locator(".row:not(.target-row) .word").nth(20)).to_be_visible()
    assert page.locator("main img").count() == 0
    names = page.locator(".row:not(.target-row) .name bdi").all_text_contents()
    # The model was trained on tokenized text, so that punctuation is separated.
    assert "".join(names[:-1]) == odd.replace(" ", "")


def test_page_on_a_phone_needs_no_horizontal_scrolling(phone, served):
    visit(phone, served, "a b c d e f g a b c d e f g! A b c")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    phone.locator(".row:not(.target-row) .name").first.tap()
    expect(phone.locator(".reading")).not_to_be_empty()


def test_all_controls_are_reachable_by_keyboard(page, served):
    visit(page, served)
    page.locator("#output-0 .sentence").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#look-title")).to_have_text("Sentence 2 of 2")
    page.locator(".regard-map").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".reading")).to_have_text(re.compile(" ← "))
    page.locator(".best button[aria-checked=true]").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".best button").nth(1)).to_have_attribute("aria-checked", "true")
