"""The report page works offline, is safe with any text, and shows the numbers and maps of the systems."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from lxml import html

from made_report import PAIRS, make_report, stored_weights
from regard.reporting.html import script_json
from regard.reporting.model_card import ModelCard
from regard.reporting.page import render
from regard.reporting.word_maps import MapPacker, WordMap, quantize, word_map


@pytest.fixture(scope="module")
def report():
    return make_report()


@pytest.fixture(scope="module")
def page(report):
    return render(report)


def scripts_of(page):
    """Return the scripts of a page by id; that of the script without an id is `code`."""
    return {script.get("id", "code"): script.text for script in html.fromstring(page).iter("script")}


@pytest.fixture(scope="module")
def scripts(page):
    return scripts_of(page)


@pytest.fixture(scope="module")
def data(scripts):
    return json.loads(scripts["data"])


def test_page_fetches_nothing_and_allows_only_its_script_and_styles(page, scripts):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(scripts["code"].encode()).digest()).decode()
    assert allowed["script-src"] == f"'sha256-{digest}'" and allowed["default-src"] == "'none'"
    (styles,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    assert allowed["style-src"] == f"'sha256-{digest}'" and "unsafe" not in policy
    # There are no event handlers or styles in attributes either.
    assert not re.search(r"<[^>]*\s(on[a-z]+|style)=", page.split('<script type="application/json"')[0])
    assert all(link.startswith(("#", "data:,")) for link in html.fromstring(page).xpath("//@src | //@href"))
    # The only address in the page is the XML namespace of SVG, which is not fetched.
    assert set(re.findall(r"https?://[^\"'\s]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", page)


def test_markup_in_text_is_data(page, scripts, data):
    document = html.fromstring(page)
    assert document.findtext(".//title") == "Report </title><b>"
    assert not [*document.iter("img", "b", "i")]
    # The scripts are the data, the maps and the script of the page.
    chunks = sum(name.startswith("maps-") for name in scripts)
    assert len([*document.iter("script")]) == 2 + chunks
    for (source, reference), sentence in zip(PAIRS, data["sentences"], strict=True):
        assert (sentence["source_words"], sentence["reference_words"]) == (source.split(), reference.split())
    assert data["systems"][1]["name"] == "<b>bounded</b>"
    inside = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert inside and not set("<>&\u2028\u2029") & set(inside[1])


@given(st.text())
def test_any_text_in_a_script_is_safe_and_is_preserved(text):
    written = script_json({"text": text})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written)["text"] == text


def test_non_finite_numbers_become_null_and_lone_surrogates_question_marks():
    assert (
        script_json([float("nan"), float("inf"), 1.5, {"x": (float("-inf"),)}])
        == '[null,null,1.5,{"x":[null]}]'
    )
    assert json.loads(script_json(["\ud800"])) == ["?"]


@given(arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(0, 4)), elements=st.floats(0, 1)))
def test_quantization_keeps_exact_zeros_and_has_small_error(weights):
    found = quantize(weights)
    assert ((found == 0) == (weights == 0)).all()
    # Half a step of the square root r changes r² by at most r / 255 + 1 / 510².
    assert (abs(stored_weights(found) - weights) <= 1 / 255 + 1 / 510**2).all()


def test_maps_in_the_page_equal_maps_of_the_systems(report, scripts, data):
    for system, name in enumerate(("soft", "<b>bounded</b>")):
        assert data["systems"][system]["name"] == name
        for row, sentence in enumerate(data["sentences"]):
            shown = report.systems[system].sentences[row]
            for key, maps in (("own", shown.own_map), ("forced", shown.forced_map)):
                kept = sentence["systems"][system].get(key)
                assert (kept is None) == (maps is None)
                if kept is None:
                    continue
                number, start = kept["at"]
                content = zlib.decompress(base64.b64decode(scripts[f"maps-{number}"]))[start:]
                assert content.startswith(maps.weights.tobytes())
                assert kept["shape"] == [len(maps.rows), len(maps.columns)]
    soft = report.systems[0].sentences[0].own_map
    assert soft.weights[0].tolist() == [255, 0, 0, 0, 0]


def test_errors_are_marked_where_they_are_counted(report, data):
    first = data["sentences"][0]["systems"][0]
    assert first["target_words"] == ["a", "dog", "dog", "dog", "runs", "."]
    assert first["repeated"] == [2, 3] and ["dog", 2, 1] in first["again"]
    assert data["sentences"][5]["systems"][0]["dropped"] == [2]
    figures = {figure["key"]: figure["values"] for figure in data["figures"]}
    for system, shown in enumerate(report.systems):
        assert figures["rep"][system] == [one.sentence.repetition_score for one in shown.sentences]
        assert figures["drop"][system] == [len(one.sentence.dropped) for one in shown.sentences]
        wrong = [len(one.sentence.dropped) + len(one.sentence.repeated) for one in shown.sentences]
        assert figures["wrong"][system] == wrong
    table = {metric["key"]: metric["systems"] for metric in data["metrics"]}
    assert table["rep"][0]["value"] == pytest.approx(report.scores.table["rep"][0].value, abs=1e-4)
    assert set(table) == {"bleu", "chrf", "rep", "drop", "aer"}


def test_date_and_model_cards_are_in_the_page(report):
    card = ModelCard("rnn", ("runs/a", "runs/b"), "soft, softmax", 1_234, 5_000, (60_000, 70_000))
    systems = [replace(report.systems[0], card=card), report.systems[1]]
    page = render(replace(report, date="2026-01-31", systems=systems))
    data = json.loads(scripts_of(page)["data"])
    assert data["date"] == "2026-01-31"
    assert {name: value for name, value, _ in data["systems"][0]["card"]} == {
        "kind": "rnn",
        "attention": "soft, softmax",
        "parameters": "1,234",
        "training text": "5,000 sentence pairs (60,000 source and 70,000 target tokens)",
        "location": "runs/a, runs/b",
    }
    # A system without a card shows at least its location.
    assert [row[:2] for row in data["systems"][1]["card"]] == [["location", "runs/<b>bounded</b>"]]


def test_subwords_are_joined_and_sink_is_a_column():
    weights = np.array([[0.25, 0.25, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]])
    maps = word_map(("word",), ("long", "word"), weights, [0, 0, 1, -1], [0, 0])
    assert maps.columns == ("long", "word", "<sink>")
    # 255 times the square roots of 0.5, 0.25 and 0.25.
    assert maps.weights.tolist() == [[180, 128, 128]]


def test_chunks_contain_the_packed_maps():
    generator = np.random.default_rng(0)
    packer, kept = MapPacker(), []
    for _ in range(30):
        rows = int(generator.integers(1, 200))
        weights = generator.integers(0, 256, (rows, 100), dtype=np.uint8)
        maps = WordMap(("a",) * rows, ("x",) * 100, weights)
        kept.append((packer.add(maps), weights.tobytes()))
    chunks = [zlib.decompress(base64.b64decode(text)) for text in packer.chunks()]
    assert len(chunks) > 1
    for (number, start), content in kept:
        assert chunks[number][start : start + len(content)] == content
