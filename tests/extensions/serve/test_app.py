"""The HTTP API: results, invalid requests, limits, and clients that disconnect."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
import threading
from unittest.mock import AsyncMock

import httpx
import numpy as np
import pytest

from extensions.serve.served import ask, post, save_model
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import ScoreSettings, SearchSettings, SentenceJob
from regard.extensions.serve.schemas import SentencePair
from regard.generation.lines import Line
from regard.generation.neural_translator import NeuralTranslator
from regard.text.words import normalize_whitespace, split_whitespace

LINES = ["a b c", "d", "e f g a b c d e", "c c c c", "x a y", "g f e", "a", "b d f a c e g"]
ODD = [
    "<script>alert(1)</script>",
    "\u200f\u202bمرحبا\u202c \u2067x\u2069",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪",
    "e\u0301 n\u0303 Z\u0351\u036b\u0343",
    "a\x00b \x1b[31m \x7f",
]


def ranked(sentence):
    """Return all translations of a sentence of an answer, best first."""
    return [sentence, *sentence["alternatives"]]


def alone(engine, line, **changes):
    """Return the translations of one line, computed without the server."""
    search = engine.configure(SearchSettings(**changes))
    translator = NeuralTranslator(engine.translator.model, engine.text, search.search)
    return translator.translate_block([Line(1, line)])[0].nbest


def test_translation_does_not_depend_on_the_batch(engines):
    async def work(one):
        requests = [
            one.post("/translate", json={"text": line, "num_return": 2, "split": False}) for line in LINES
        ]
        return [ranked(found.json()["sentences"][0]) for found in await asyncio.gather(*requests)]

    for line, found in zip(LINES, ask(engines, work, batch_window=50.0), strict=True):
        expected = alone(engines[0], line, num_return=2)
        assert [one["text"] for one in found] == [one.text for one in expected]
        assert np.allclose([one["score"] for one in found], [one.score for one in expected], atol=1e-4)
        for one, other in zip(found, expected, strict=True):
            assert np.allclose(one["word_attention_map"], other.attention_map, atol=1e-4)
            assert one["alignment"] == sorted(map(list, other.links))


def test_text_is_split_into_sentences_and_line_breaks_are_kept(engines):
    answer = post(engines, "/translate", {"texts": ["A b! C d?\n\n e", " ", "f"]}).json()
    assert [one["source"] for one in answer["sentences"]] == ["A b!", "C d?", "e", "f"]
    assert [one["text_index"] for one in answer["sentences"]] == [0, 0, 0, 2]
    best = [one["text"] for one in answer["sentences"]]
    assert answer["texts"] == [f"{best[0]} {best[1]}\n\n {best[2]}", " ", best[3]]


def test_streamed_response_equals_single_response(engines):
    payload = {"texts": LINES, "split": False, "num_return": 2}
    whole = post(engines, "/translate", payload).json()
    stream = post(engines, "/translate", {**payload, "stream": True})
    assert stream.headers["content-type"].startswith("application/x-ndjson")
    *lines, last = [json.loads(line) for line in stream.text.splitlines()]
    assert last == {"done": True, "texts": whole["texts"]}
    by_place = {one["sentence"]: one for one in lines}
    for one in whole["sentences"]:
        assert by_place[one["sentence"]] == {"schema": "translation", "schema_version": 1, **one}


def test_fertility_bounds_are_respected(engines):
    def fertility(**bounds):
        return {"model": "bounded", "text": "a b c", "fertilities": [{"word": 1, **bounds}]}

    free = post(engines, "/translate", {"model": "bounded", "text": "a b c"}).json()["sentences"][0]
    never = post(engines, "/translate", fertility(upper=0)).json()["sentences"][0]
    assert free["fertility_bounds"] == [{"lower": 0, "upper": 2}] * 3 and free["received_attention"][1] > 0
    assert never["fertility_bounds"][1] == {"lower": 0, "upper": 0} and never["received_attention"][1] == 0
    assert all(row[1] == 0 for row in never["word_attention_map"])
    least = post(engines, "/translate", fertility(lower=1)).json()["sentences"][0]
    assert least["fertility_bounds"][1] == {"lower": 1, "upper": 2}
    assert least["received_attention"][1] >= 0.5 - 1e-4


def test_attention_has_a_sink_column_and_rows_sum_to_one(engines):
    answer = post(engines, "/translate", {"model": "bounded", "text": "a b c", "attention": "tokens"}).json()
    (best,) = answer["sentences"]
    assert best["sink"] and np.shape(best["word_attention_map"]) == (len(best["target_words"]), 4)
    assert np.allclose(np.sum(best["word_attention_map"], axis=1), 1, atol=1e-3)
    assert np.shape(best["attention_map"]) == (len(best["tokens"]), 4)


def test_model_without_attention_returns_no_attention(engines):
    (sentence,) = post(engines, "/translate", {"model": "blind", "text": "a b c"}).json()["sentences"]
    assert sentence["text"] and sentence["word_attention_map"] is None and sentence["alignment"] == []


def test_score_equals_search_score(engines):
    found = alone(engines[0], "a b c")[0]
    answer = post(engines, "/score", {"pairs": [{"source": "a b c", "target": found.text}] * 2}).json()
    assert (answer["schema"], answer["schema_version"]) == ("scores", 1)
    for pair in answer["sentences"]:
        assert pair["log_probability"] == pytest.approx(found.log_probability, abs=1e-4)
        assert pair["token_log_probs"] == pytest.approx(found.token_log_probs, abs=1e-4)
        assert pair["score"] == pytest.approx(found.score, abs=1e-4)


@pytest.mark.parametrize("text", ODD)
def test_text_is_returned_with_spaces_for_control_characters(engines, text):
    for stream in (False, True):
        answer = post(engines, "/translate", {"text": text, "split": False, "stream": stream})
        assert answer.status_code == 200
        sentence = json.loads(answer.text.splitlines()[0])
        sentence = sentence if stream else sentence["sentences"][0]
        assert sentence["source"] == normalize_whitespace(text)
        assert sentence["source_words"] == split_whitespace(text)
        assert "unknown_words" in sentence and answer.headers["x-content-type-options"] == "nosniff"


INVALID_REQUESTS = [
    ("GET", "/nowhere", None, 404),
    ("GET", "/translate", None, 405),
    ("DELETE", "/health", None, 405),
    ("POST", "/nowhere", b"{}", 404),
    ("POST", "/translate", b"{", 400),
    ("POST", "/translate", b"\xff\xfe", 400),
    ("POST", "/translate", b"[" * 100_000, 400),
    ("POST", "/translate", b"{}", 422),
    ("POST", "/translate", b'{"text": "a", "num_return": 11}', 422),
    ("POST", "/translate", b'{"text": "a", "num_return": true}', 422),
    ("POST", "/translate", b'{"text": "\\ud800"}', 422),
    ("POST", "/translate", b'{"text": "a", "model": "\\ud800"}', 422),
    ("POST", "/translate", b'{"text": "a", "model": "other"}', 404),
    ("POST", "/translate", b'{"text": "a", "fertilities": [{"word": 0, "upper": 1}]}', 422),
    ("POST", "/translate", b'{"text": "' + b"a" * 300_000 + b'"}', 413),
    ("POST", "/translate", b'{"text": "' + b"a" * 21_000 + b'"}', 422),
    ("POST", "/translate", b'{"text": "' + b"a " * 200 + b'"}', 422),
    ("POST", "/translate", b'{"text": "' + b"a\\n" * 300 + b'"}', 422),
]
INVALID_REQUESTS += [
    ("POST", "/translate", f'{{"text": "a b c", "model": "bounded", "fertilities": [{one}]}}'.encode(), 422)
    for one in (
        '{"word": 0, "upper": NaN}',
        '{"word": 0, "upper": -1}',
        '{"word": 0, "upper": 1e999}',
        '{"word": 0, "lower": 2, "upper": 1}',
        '{"word": 3, "upper": 1}',
        '{"word": 0, "sentence": 1, "upper": 1}',
    )
]


def test_every_error_response_has_one_format_and_no_traceback(engines):
    async def work(one):
        header = {"content-type": "application/json"}
        return [
            await one.request(method, path, content=body, headers=header)
            for method, path, body, _ in INVALID_REQUESTS
        ]

    answers = ask(engines, work)
    for (method, path, body, status), answer in zip(INVALID_REQUESTS, answers, strict=True):
        assert answer.status_code == status, (method, path, body and body[:80], answer.text)
        assert set(answer.json()) == {"error"} and answer.json()["error"], answer.text
        assert "Traceback" not in answer.text and len(answer.text) < 1000
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert status != 405 or answer.headers["allow"] == ("GET" if path == "/health" else "POST")


@pytest.mark.parametrize("header", [{}, {"content-type": "text/plain"}])
def test_body_without_json_content_type_is_rejected(engines, header):
    found = ask(engines, lambda one: one.post("/translate", content=b'{"text": "a"}', headers=header))
    assert found.status_code == 415


@pytest.mark.parametrize(("method", "path"), [("POST", "/translate"), ("GET", "/health")])
def test_foreign_host_name_is_rejected(engines, method, path):
    def work(one):
        return one.request(method, path, json={"text": "a b"}, headers={"host": "translate.example.org"})

    rejected = ask(engines, work)
    assert rejected.status_code == 421 and "--allow-hosts" in rejected.json()["error"]
    assert ask(engines, work, allow_hosts=("translate.example.org",)).status_code == 200


def test_invalid_sentence_does_not_affect_others(engines):
    bounded = engines[1]
    bad = SentenceJob("a b", ((9, 0.0, 1.0),))
    jobs = [SentenceJob("a b c"), bad, SentenceJob("d"), SentenceJob("a " * 900)]
    found = bounded.process_batch(SearchSettings(), jobs)
    assert [isinstance(one, Exception) for one in found] == [False, True, False, True]
    assert found[0]["text"] == alone(bounded, "a b c")[0].text
    pairs = [("", "A"), ("a", "A"), ("a", "A " * 900)]
    scored = bounded.process_batch(ScoreSettings(), [SentencePair(source=s, target=t) for s, t in pairs])
    assert [isinstance(one, Exception) for one in scored] == [True, False, True]


def test_failed_batch_is_retried_one_sentence_at_a_time(engines, monkeypatch):
    block = NeuralTranslator.translate_block

    def fails_on_d(self, lines):
        assert not any(line.text == "d" for line in lines)
        return block(self, lines)

    monkeypatch.setattr(NeuralTranslator, "translate_block", fails_on_d)
    found = engines[0].process_batch(SearchSettings(), [SentenceJob(line) for line in LINES])
    assert [isinstance(one, Exception) for one in found] == [line == "d" for line in LINES]


def test_unexpected_error_is_logged_with_its_identifier(engines, monkeypatch, caplog):
    def fails(self, lines):
        raise RuntimeError("the secret cause")

    monkeypatch.setattr(NeuralTranslator, "translate_block", fails)
    with caplog.at_level(logging.ERROR):
        answer = post(engines, "/translate", {"text": "a"})
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.json()["identifier"] in caplog.text and "the secret cause" in caplog.text
    stream = post(engines, "/translate", {"text": "a", "stream": True})
    assert "identifier" in json.loads(stream.text.splitlines()[0])


@pytest.fixture
def held(engines, monkeypatch):
    """Return an event; the first model does not answer before the event is set."""
    event, begun = threading.Event(), threading.Event()
    work = engines[0].process_batch

    def waits(settings, jobs):
        begun.set()
        assert event.wait(20)
        return work(settings, jobs)

    monkeypatch.setattr(engines[0], "process_batch", waits)
    event.begun = begun  # type: ignore[attr-defined]
    yield event
    event.set()


async def until(condition):
    """Wait until the condition holds, for at most 20 seconds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def test_full_queue_responds_429_with_retry_after(engines, held):
    async def work(one):
        requests = [asyncio.ensure_future(one.post("/translate", json={"text": "a"})) for _ in range(3)]
        # The engine has at most one request and the queue another one, so that the third is rejected.
        (full, *_), _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        held.set()
        await asyncio.wait(requests)
        return await full

    full = ask(engines, work, max_queued_sentences=1, max_sentences=1)
    assert full.status_code == 429 and set(full.json()) == {"error"}
    assert int(full.headers["retry-after"]) >= 1


def test_timed_out_request_responds_504_and_leaves_the_queue(engines, held):
    async def work(one):
        first = asyncio.ensure_future(one.post("/translate", json={"text": "a"}))
        await until(held.begun.is_set)
        late = await one.post("/translate", json={"text": "b"})
        stream = await one.post("/translate", json={"text": "c", "stream": True})
        waiting = (await one.get("/health")).json()["waiting"]
        held.set()
        await first
        return late, stream, waiting

    late, stream, waiting = ask(engines, work, request_timeout=0.2)
    assert late.status_code == 504 and set(late.json()) == {"error"} and waiting == 0
    assert "error" in json.loads(stream.text.splitlines()[0])


@pytest.mark.parametrize("stream", [False, True])
def test_request_of_disconnected_client_leaves_the_queue(engines, held, stream):
    async def work():
        app = create_app(engines, ServeConfig())
        desk = app.state.desk
        body = json.dumps({"texts": LINES, "stream": stream}).encode()
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/translate",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        async with app.router.lifespan_context(app):
            desk.queues["plain"].submit([SentenceJob("a")], SearchSettings(), [1])
            await until(held.begun.is_set)
            call = asyncio.ensure_future(app(scope, receive, AsyncMock()))
            await until(lambda: len(desk.queues["plain"].waiting) == len(LINES))
            gone.set()
            await until(lambda: not desk.queues["plain"].waiting)
            await call
            held.set()

    asyncio.run(work())


def test_cross_origin_access_requires_permission(engines):
    async def work(one):
        origin = {"origin": "https://a.example"}
        payload = {
            **origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        return await one.get("/health", headers=origin), await one.options("/translate", headers=payload)

    plain, before = ask(engines, work)
    assert not [name for name in (*plain.headers, *before.headers) if name.startswith("access-control")]
    plain, before = ask(engines, work, allow_origins=("https://a.example",))
    assert plain.headers["access-control-allow-origin"] == "https://a.example" and before.status_code == 200
    plain, _ = ask(engines, work, allow_origins=("https://b.example",))
    assert "access-control-allow-origin" not in plain.headers


@pytest.mark.parametrize(("path", "num_parts"), [("/", 5), ("/docs", 3)])
def test_pages_load_only_from_the_server_itself(engines, path, num_parts):
    async def work(one):
        page = await one.get(path)
        names = [part.split('"')[1] for part in page.text.replace("href=", "src=").split("src=")[1:]]
        return page, {name: await one.get(name) for name in names}

    page, parts = ask(engines, work)
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "<script>" not in page.text and "<style" not in page.text and "style=" not in page.text
    assert len(parts) >= num_parts and not any(":" in name for name in parts)
    assert all(answer.status_code == 200 and answer.content for answer in parts.values())
    assert all("http://" not in one.text.replace("http://www.w3.org", "") for one in parts.values())


def test_models_and_health_describe_the_server(engines):
    async def work(one):
        await one.post("/translate", json={"texts": LINES})
        return [await one.get(path) for path in ("/models", "/health")]

    models, health = ask(engines, work)
    assert [one["name"] for one in models.json()["models"]] == ["plain", "bounded", "blind"]
    assert [one["fertility"] for one in models.json()["models"]] == [None, "constant", None]
    assert models.json()["limits"]["max_beam_size"] == 10
    assert health.json()["status"] == "ok" and health.json()["waiting"] == 0


@pytest.mark.slow
def test_sigterm_finishes_running_requests_and_exits_with_0(tmp_path):
    directory = save_model(tmp_path / "model")
    options = ("--port", "0", "--batch-window", "1500")
    command = [sys.executable, "-m", "regard", "serve", str(directory), *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split()[-1]
        found: list[httpx.Response] = []

        def translate():
            found.append(httpx.post(f"{address}/translate", json={"text": "a b c"}, timeout=60))

        user = threading.Thread(target=translate)
        user.start()
        while httpx.get(f"{address}/health").json()["waiting"] == 0:
            assert user.is_alive()
        server.send_signal(signal.SIGTERM)
        user.join(60)
        assert found and found[0].status_code == 200 and found[0].json()["texts"][0]
        assert server.wait(60) == 0
        assert server.stderr.read() == ""
    finally:
        server.kill()
        server.wait()
        if server.stderr:
            server.stderr.close()
