"""The unknown token is not generated where every word can be spelled in subword tokens."""

import pytest

from regard.config import from_dict
from regard.decoding.config import SearchConfig


@pytest.mark.parametrize(
    ("settings", "subword", "forbidden"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"alignment": {"replace_unknown": True}}, True, False),
        ({"forbid_unknown": False}, True, False),
        ({"forbid_unknown": True}, False, True),
    ],
)
def test_the_tokenizer_decides_unless_the_settings_do(settings, subword, forbidden):
    assert from_dict(SearchConfig, settings).for_text(subword).forbid_unknown is forbidden
