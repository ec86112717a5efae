"""Tests of the default of `suppress_unk`: <unk> is forbidden if subword tokens can spell every word."""

import pytest

from regard.config import from_dict
from regard.generation.config import GenerationConfig


@pytest.mark.parametrize(
    ("settings", "subword", "forbidden"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"alignment": {"replace_unk": True}}, True, False),
        ({"suppress_unk": False}, True, False),
        ({"suppress_unk": True}, False, True),
    ],
)
def test_tokenizer_determines_the_default(settings, subword, forbidden):
    assert from_dict(GenerationConfig, settings).resolve_suppress_unk(subword).suppress_unk is forbidden
