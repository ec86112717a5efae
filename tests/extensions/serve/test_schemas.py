"""Schemathesis finds no mismatch between the API and its OpenAPI description; seeded and in this process."""

import re
from dataclasses import replace
from typing import get_args

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

import regard
from extensions.serve.served import post, save_model
from regard.extensions.check.server import CheckAnswer, CheckServer
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.schemas import TranslationData
from regard.generation.reranking import CoverageJudgment, LineRepair
from regard.generation.translation import AttentionDetail, Translation

ADDRESSES = {
    "POST /translate": 25,
    "POST /score": 15,
    "POST /check": 15,
    "POST /split": 8,
    "GET /models": 1,
    "GET /health": 1,
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
    app = create_app(engines, ServeConfig(allow_hosts=("*",)), CheckServer(detector="repetition"))
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
        found = post(engines, "/score", {"pairs": [{"source": text, "target": ""}]})
        assert found.status_code == expected, text


def _described(translation, attention: AttentionDetail = "words"):
    """Return whether the fields of a translation are exactly those of the schema, at every depth."""
    data = translation.to_data(attention)
    return TranslationData.model_validate(data).model_dump(mode="json", exclude_unset=True) == data


def test_the_schema_has_the_fields_of_translations_with_any_feature(tmp_path):
    model = regard.load(save_model(tmp_path / "model", fertility=0.8))
    judgment = CoverageJudgment(("a", "b"), (0.1, 0.2), 0.1, 0.2, 0.3, 0.4)
    plain = model.translate("a b c d")
    results = [
        plain,
        model.translate("a b", num_return=3),
        model.translate("a b", terms=["A"]),
        model.translate("a b", sampling=regard.Sampling()),
        model.translate("a b", mbr=regard.MBR(utility="bleu")),
        model.translate("a b", fertilities=[(0.5, 1.0), None]),
        model.translate(""),
        model.score("a b", "A B"),
        replace(plain, repair=LineRepair(True, "A", judgment, judgment, -1.0, -2.0)),
        replace(plain, repair=LineRepair(False, "A", judgment, judgment, -1.0, -1.0)),
        Translation("a", plain.processor, error="too long"),
    ]
    # The server returns no attention of all layers.
    details = set(get_args(AttentionDetail)) - {"layers"}
    assert all(_described(one, detail) for one in results for detail in details)


@pytest.mark.parametrize("detector", ["length", "repetition"])
def test_the_schema_has_the_fields_of_checks(detector):
    data = regard.check(["a b c", "a"], ["A B B", ""], detector).to_dict()
    assert CheckAnswer.model_validate(data).model_dump(by_alias=True, exclude_unset=True) == data
