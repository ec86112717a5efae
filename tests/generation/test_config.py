"""Tests of the settings of search."""

import dataclasses

import pytest

from generation.conftest import BPE, TEXT
from regard.config import from_dict
from regard.data.text import TextProcessor
from regard.generation.base import FileTranslator
from regard.generation.config import _NESTED_OPTIONS, GenerationConfig, SearchOverrides


def test_keyword_arguments_of_search_are_the_settings_of_the_configuration() -> None:
    tables = {"coverage_penalty", "scheme", "alignment"}
    names = {field.name for field in dataclasses.fields(GenerationConfig)} - tables
    assert set(SearchOverrides.__annotations__) == names | set(_NESTED_OPTIONS) | {"head"}


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
def test_tokenizer_determines_whether_the_unknown_token_is_suppressed(settings, subword, forbidden):
    side = BPE if subword else TEXT.target
    translator = FileTranslator([], TextProcessor(side, side), from_dict(GenerationConfig, settings))
    assert translator.resolved_search.suppress_unk is forbidden
