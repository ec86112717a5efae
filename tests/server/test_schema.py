"""Schemathesis finds no mismatch between the API and its OpenAPI description; seeded and in this process."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from regard.server.app import create_app
from regard.server.check import CheckServer
from regard.server.config import ServeConfig
from server.served import ask

ADDRESSES = {
    "POST /translate": 25,
    "POST /score": 15,
    "POST /check": 15,
    "POST /split": 8,
    "GET /models": 1,
    "GET /health": 1,
    "GET /metrics": 1,
}
CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 7,
        # Conditions that JSON Schema cannot express, such as one bound below another, are rejected with 422.
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ["2xx", "404", "422"]},
            "negative_data_rejection": {"expected-statuses": ["400", "404", "413", "415", "422"]},
        },
    }
)


@pytest.fixture(scope="module")
def described(engines):
    app = create_app(engines, ServeConfig(), CheckServer(detector="repetition"))
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=CONFIG)


def test_every_operation_is_described_and_tested(described):
    assert {one.ok().label for one in described.get_all_operations()} == set(ADDRESSES)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("label", ADDRESSES)
def test_api_conforms_to_its_description(described, label, mode):
    operation = described.find_operation_by_label(label)
    if mode is GenerationMode.NEGATIVE and not label.startswith("POST"):
        pytest.skip("a GET request has no body that could be invalid")
    tried = []

    @settings(
        max_examples=ADDRESSES[label],
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def conforms(case):
        tried.append(case.call_and_validate().status_code)

    conforms()
    assert tried and (mode is GenerationMode.NEGATIVE or 200 in tried)


def test_source_without_a_word_violates_the_description(described, engines):
    source = described.raw_schema["components"]["schemas"]["SentencePair"]["properties"]["source"]
    for text, expected in (("a", 200), ("", 422), (" \t", 422), ("\n\x0b\x0c\r", 422), ("\u2003", 200)):
        fits = len(text) >= source["minLength"] and re.search(source["pattern"], text) is not None
        assert fits == (expected == 200)
        found = ask(
            engines,
            lambda one, text=text: one.post("/score", json={"pairs": [{"source": text, "target": ""}]}),
        )
        assert found.status_code == expected, text


def test_limits_and_error_responses_are_described(described):
    paths = described.raw_schema["paths"]
    for path in ("/translate", "/score"):
        assert {"405", "413", "422", "429", "503", "504"} <= set(paths[path]["post"]["responses"])
    fields = described.raw_schema["components"]["schemas"]["TranslateRequest"]["properties"]
    assert fields["num_return"]["maximum"] == ServeConfig().max_beam_size
