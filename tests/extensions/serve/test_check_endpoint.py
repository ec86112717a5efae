"""`POST /check`: the answer equals that of `regard.check`, and invalid requests are explained."""

import json

import pytest

import regard
from extensions.serve.served import ask
from quick_coverage import phrasebook_model
from regard.extensions.check.api import CoverageModel
from regard.extensions.check.detectors import NOTES
from regard.extensions.check.server import CheckServer

PAIRS = [
    {"source": "ein  Hund\tläuft", "target": "a dog a dog"},
    {"source": "das Haus", "target": ""},
]


@pytest.fixture(scope="module")
def checker():
    """Return the detectors that need no model; `repetition` is the default."""
    return CheckServer(detector="repetition")


def post(engines, checker, **body):
    # The JSON of httpx cannot have half of a character, so it is written here, with escapes.
    content, kind = json.dumps(body), {"content-type": "application/json"}
    return ask(engines, lambda one: one.post("/check", content=content, headers=kind), checker=checker)


def test_answer_equals_that_of_python(engines, checker):
    found = post(engines, checker, pairs=PAIRS)
    assert found.status_code == 200
    expected = regard.check(["ein Hund läuft", "das Haus"], ["a dog a dog", ""], "repetition").to_dict()
    assert found.json() == expected
    assert [one["line"] for one in found.json()["sentences"]] == [1, 2]
    assert post(engines, checker, pairs=[]).json()["sentences"] == []


def test_a_detector_can_be_chosen(engines, checker):
    assert "length" in checker.detectors and checker.detectors[0] == "repetition"
    found = post(engines, checker, pairs=PAIRS, detector="length").json()
    assert found["detector"] == "length"
    # An empty translation is shorter than any other.
    assert found["sentences"][1]["probabilities"]["omission"] > 0.9


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"pairs": [{"source": " \t", "target": "a"}]}, 422, "sentence 1: the source is empty"),
        ({"pairs": PAIRS, "detector": "luck"}, 404, "detector 'luck' is not served: expected 'repetition'"),
        ({"pairs": PAIRS * 101}, 422, "202 pairs: a request may have at most 200"),
        ({"pairs": [{"source": "a", "target": "\ud800"}]}, 422, "half of a character"),
        ({"pairs": PAIRS, "model": "plain"}, 422, "model"),
        ({}, 422, "pairs"),
    ],
)
def test_invalid_requests_are_explained(engines, checker, body, status, message):
    found = post(engines, checker, **body)
    assert (found.status_code, message in found.json()["error"]) == (status, True), found.text


def test_a_server_without_detectors_names_the_missing_option(engines):
    found = post(engines, None, pairs=PAIRS)
    assert found.status_code == 404 and "--checker" in found.json()["error"]


def test_models_describe_the_detectors(engines, checker):
    described = ask(engines, lambda one: one.get("/models"), checker=checker).json()["checks"]
    assert described == checker.describe() and set(described["notes"]) == set(NOTES)
    assert ask(engines, lambda one: one.get("/models")).json()["checks"] is None


def test_a_model_serves_the_calibrated_detector(engines, tmp_path_factory):
    checker = CheckServer(CoverageModel.load(phrasebook_model(tmp_path_factory), num_threads=1))
    assert checker.detectors[0] == "combined" and "length" in checker.detectors
    found = post(engines, checker, pairs=[{"source": "x1 y2 x3 y4", "target": ""}]).json()
    assert found["sentences"][0]["probabilities"]["omission"] == 1
    assert found["sentences"][0]["omitted"] == [1.0] * 4
