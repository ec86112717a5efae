"""Tests of attention budgets: upper and lower bounds of source tokens, the sink, and fertility files."""

import math

import numpy as np
import pytest

from regard.data.fertility import (
    Budget,
    ConstantFertilityConfig,
    GuidedFertilityConfig,
    parse_bounds,
    token_fertilities,
)
from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SINK, SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "ein", "H\u2028und"))
EIN, HUND = 5, 6


def text(budget: Budget | None) -> TextProcessor:
    side = TextSide(WordsTokenizer(WordsConfig()), VOCABULARY)
    return TextProcessor(side, side, budget)


def bounds(line: str, word_ids: list[int]) -> tuple[tuple[float, float], ...]:
    return token_fertilities([parse_bounds(field, "here") for field in line.split()], word_ids, "here")


def test_sink_follows_the_last_token_before_padding() -> None:
    batch = text(Budget.constant(ConstantFertilityConfig(value=2.0), 7)).batch(
        [[EIN], [EIN, HUND]], None, [0, 1]
    )
    assert batch.source.tokens.tolist() == [[EIN, SINK, 0], [EIN, HUND, SINK]]
    assert batch.upper_bounds is not None and batch.lower_bounds is None
    assert batch.upper_bounds.tolist() == [[2.0, math.inf, 0.0], [2.0, 2.0, math.inf]]


def test_user_specified_fertilities_override_the_models() -> None:
    made = text(Budget.constant(ConstantFertilityConfig(value=2.0), 7))
    batch = made.batch([[EIN, HUND], [HUND]], None, [0, 1], [bounds("- 1:4", [0, 1]), None])
    assert batch.upper_bounds is not None and batch.lower_bounds is not None
    assert batch.upper_bounds.tolist() == [[2.0, 4.0, math.inf], [2.0, math.inf, 0.0]]
    assert batch.lower_bounds.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_fertility_of_a_word_applies_to_each_of_its_subword_tokens() -> None:
    found = bounds("2 0 1:", [0, 0, 1, 2, 2])
    assert found[:3] == ((0.0, 2.0), (0.0, 2.0), (0.0, 0.0))
    assert [minimum for minimum, _ in found[3:]] == [1.0, 1.0]
    with pytest.raises(DataError, match="4 fertilities, but the sentence has 3 words in 5 tokens"):
        bounds("1 1 1 1", [0, 0, 1, 2, 2])


def test_minimum_raises_the_models_maximum() -> None:
    budget = Budget.constant(ConstantFertilityConfig(value=2.0, sink=False), 7)
    (upper,), lower = budget.bounds([[EIN, HUND]], [bounds("3: 1:", [0, 1])])
    assert lower is not None and upper.tolist() == [3.0, 2.0] and lower[0].tolist() == [3.0, 1.0]


def test_bounds_below_one_unit_are_rejected_without_a_sink() -> None:
    budget = Budget.constant(ConstantFertilityConfig(value=2.0), 7)
    budget.check([EIN, HUND], bounds("0.5 0.4", [0, 1]), 1, "here")
    budget.check([EIN, HUND], bounds("0.5 0.5", [0, 1]), 0, "here")
    with pytest.raises(DataError, match=r"here: the fertilities sum to 0\.9"):
        budget.check([EIN, HUND], bounds("0.5 0.4", [0, 1]), 0, "here")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2", "2 fertilities, but the sentence has 3 tokens"),
        ("1 2 -3", "'-3'"),
        ("1 x 2", "'x'"),
        ("1 3:2 2", "minimum of 3, above its maximum of 2"),
        ("1 inf: 2", "infinite minimum"),
    ],
)
def test_invalid_fertilities_are_reported_with_the_line(line, message) -> None:
    with pytest.raises(DataError, match=message) as raised:
        fields = [parse_bounds(field, "file, line 7") for field in line.split()]
        token_fertilities(fields, [0, 1, 2], "file, line 7")
    assert "file, line 7" in str(raised.value)


def test_budgets_with_the_same_bounds_are_equal() -> None:
    two = Budget.constant(ConstantFertilityConfig(value=2.0), 7)
    assert two == Budget.constant(ConstantFertilityConfig(value=2.0), 7)
    assert two != Budget.constant(ConstantFertilityConfig(value=3.0), 7)
    assert two != Budget.constant(ConstantFertilityConfig(value=2.0, sink=False), 7)


def test_guided_budget_is_saved_with_the_vocabulary(tmp_path) -> None:
    budget = Budget(GuidedFertilityConfig(), np.array([1, 1, 1, 1, 1, 3, 2], dtype=np.float32))
    text(budget).save(tmp_path)
    loaded = TextProcessor.load(tmp_path).budget
    assert loaded is not None and loaded.config == budget.config
    np.testing.assert_array_equal(loaded.table, budget.table)
    path = tmp_path / "source.fertility"
    with pytest.raises(DataError, match="line 6: token 'ein', expected 'kein'"):
        Budget.load(path, GuidedFertilityConfig(), Vocabulary((*SPECIAL_TOKENS, "kein", "H\u2028und")))
