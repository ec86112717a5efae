"""The served page in a browser: typing, inspection, fertility bounds, comparison, links, dark mode, phone."""

import json
import re
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("playwright.sync_api")

import uvicorn
from playwright.sync_api import expect

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


@contextmanager
def serve(app):
    """Yield the address of an application that a thread serves."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(30)


def visit(page, address, text=TEXT):
    """Open the page with a text, and wait for its translation.

    The text is in the address, because the page translates typed text only after a pause.
    """
    page.goto(f"{address}#text={quote(text)}")
    expect(page.locator("#output-0 .sentence:not(.waiting)")).to_have_count(len(text.split("!")))
    expect(page.locator(".card .regard-map").first).to_be_visible()
    return page


def contrast(page, selector, ground):
    """Return the contrast ratio (WCAG) between a text and the background of an element around it."""
    script = """([selector, ground]) => {
      const light = (color) => {
        const part = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map((value) => part(value / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ink = light(getComputedStyle(document.querySelector(selector)).color);
      const paper = light(getComputedStyle(document.querySelector(ground)).backgroundColor);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }"""
    return page.evaluate(script, [selector, ground])


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


def test_example_is_translated_when_it_is_clicked(page, served):
    def named(route):
        response = route.fetch()
        content = response.json()
        content["models"][0]["examples"] = ["a b c", "d <b>e</b>"]
        route.fulfill(response=response, json=content)

    page.route("**/models", named)
    page.goto(served)
    expect(page.locator(".example")).to_have_text(["a b c", "d <b>e</b>"])
    page.locator(".example").first.click()
    expect(page.locator("#text")).to_have_value("a b c")
    expect(page.locator(".card .regard-map").first).to_be_visible()
    expect(page.locator("#examples")).to_be_hidden()
    # Scores have labels, and the options distinguish the models.
    expect(page.locator(".best button").first).to_contain_text("score −")
    expect(page.locator("#model-0 option").first).to_have_text("bounded · constrained, sparsemax")


def test_scale_and_legend_apply_to_all_maps(page, served):
    visit(page, served)
    page.locator("#compare").click()
    expect(page.locator(".card .regard-map")).to_have_count(2)
    page.locator(".map-scale").first.select_option("log")
    expect(page.locator(".map-scale").nth(1)).to_have_value("log")
    for map in page.locator(".card .regard-map").all():
        assert map.locator(".scale text").all_text_contents() == ["0", "0.001", "0.01", "0.1", "1"]


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


def test_page_of_the_api_fits_a_phone(phone, served):
    phone.goto(f"{served}docs")
    expect(phone.locator("#schema-SplitAnswer")).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360


def test_hovering_shows_the_weight_of_a_cell(page, served):
    visit(page, served)
    page.locator('.regard-map rect[data-row="0"][data-column="1"]').hover()
    expect(page.locator(".reading")).to_have_text(re.compile(r"^\S+ ← b: "))


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


def test_handle_can_be_dragged(page, served):
    visit(page, served)
    track = page.locator(".track").nth(2)
    box = track.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 4)
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] * 3 / 4, steps=4)
    page.mouse.up()
    expect(page.locator(".handle").nth(2)).to_have_attribute("aria-valuetext", "at most once")
    assert "bent=0.0.2.once" in page.url


def test_another_translation_can_be_selected(page, served):
    visit(page, served)
    third = page.locator(".best button").nth(2)
    text = third.locator("bdi").inner_text()
    third.click()
    expect(page.locator("#output-0 .sentence").first).to_have_text(text)
    expect(page.locator(".best button").nth(2)).to_have_attribute("aria-checked", "true")


def test_two_models_are_shown_side_by_side_and_one_has_no_bounds(page, served):
    visit(page, served)
    page.locator("#compare").click()
    expect(page.locator("#cards .card")).to_have_count(2)
    expect(page.locator(".card").nth(1)).to_contain_text("cannot be adjusted")
    expect(page.locator(".card").nth(1).locator(".handle")).to_have_count(0)
    expect(page.locator("#output-1 .sentence:not(.waiting)")).to_have_count(2)


def chosen(page):
    return [page.locator(f"#model-{side}").input_value() for side in (0, 1)]


def test_both_sides_always_show_different_models(page, served):
    visit(page, served)
    page.locator("#model-0").select_option("plain")
    page.locator("#compare").click()
    expect(page.locator(".card b").nth(1)).to_have_text("bounded")
    assert chosen(page) == ["plain", "bounded"]
    page.locator("#model-1").select_option("plain")
    expect(page.locator(".card b").first).to_have_text("bounded")
    expect(page.locator(".card b").nth(1)).to_have_text("plain")
    assert chosen(page) == ["bounded", "plain"]
    # Also with a link that names one model twice, as older versions could create.
    page.goto("about:blank")
    page.goto(f"{served}#text=a+b&model=plain&second=plain")
    expect(page.locator("#cards .card")).to_have_count(2)
    assert chosen(page) == ["plain", "bounded"]


def test_nothing_is_clipped_with_two_models_side_by_side(opened, served):
    page = visit(opened(viewport={"width": 1280, "height": 900}), served, "a b c d e f g " * 3 + "a b c d")
    page.locator("#compare").click()
    expect(page.locator(".card .regard-map")).to_have_count(2)
    edge = page.locator(".card").first.bounding_box()
    for sink in (".row:not(.target-row) .sink .name", ".column-label >> nth=-1"):
        box = page.locator(".card").first.locator(sink).bounding_box()
        assert box["x"] >= edge["x"] and box["x"] + box["width"] <= edge["x"] + edge["width"]
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className)"
    assert page.locator(".card, .weave, .map-box").evaluate_all(cut) == []


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


def test_maps_of_different_translations_are_not_subtracted_with_a_reason(page, served):
    visit(page, served, "a b")
    page.locator("#compare").click()
    expect(page.locator(".difference")).to_contain_text(
        re.compile("The translations differ .word [0-9]+ of the")
    )


def test_text_entered_before_the_models_are_known_is_translated(page, served):
    def slow(route):
        page.locator("#text").fill(TEXT)
        route.continue_()

    page.route("**/models", slow)
    page.goto(served)
    expect(page.locator("#output-0 .sentence:not(.waiting)")).to_have_count(2)


def test_sentence_that_is_replaced_while_it_is_pressed_is_selected(page, served):
    visit(page, served)
    second = page.locator("#output-0 .sentence").nth(1)
    box = second.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    # An answer replaces all sentences.
    page.evaluate(
        "const output = document.getElementById('output-0');"
        "output.replaceChildren(...[...output.childNodes].map((node) => node.cloneNode(true)))"
    )
    page.mouse.up()
    expect(page.locator("#look-title")).to_have_text("Sentence 2 of 2")


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
    expect(page.locator(".row:not(.target-row) .word")).to_have_count(len(odd.split()) + 1)
    assert page.locator("main img").count() == 0
    names = page.locator(".row:not(.target-row) .name bdi").all_text_contents()
    assert names[:-1] == odd.split()


def test_dark_and_light_mode_have_sufficient_contrast(opened, served):
    for scheme in ("light", "dark"):
        page = visit(opened(color_scheme=scheme), served)
        for selector, ground in (
            ("#text", ".pane"),
            (".note-text", ".card"),
            (".caption", ".card"),
            ("#status", "body"),
            (".name", ".name"),
            (".tag", ".tag"),
        ):
            assert contrast(page, selector, ground) >= 4.5, (scheme, selector)


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
