"""Tests of the settings of search."""

import dataclasses

from regard.generation.config import _NESTED_OPTIONS, GenerationConfig, SearchOverrides


def test_keyword_arguments_of_search_are_the_settings_of_the_configuration() -> None:
    tables = {"coverage_penalty", "scheme", "alignment"}
    names = {field.name for field in dataclasses.fields(GenerationConfig)} - tables
    assert set(SearchOverrides.__annotations__) == names | set(_NESTED_OPTIONS) | {"head"}
