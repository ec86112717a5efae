"""The laws of all results: JSON with a version, escaped HTML, and clear errors."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from regard.alignment.base import IterationStats
from regard.analysis.attention import perplexity_of
from regard.api.translations import ScoreTotals
from regard.config.results import SCHEMA_VERSION, Result, json_value, perplexity
from regard.errors import DataError, UsageError
from regard.extensions.reproduce.scores import METRIC_FUNCTIONS


@dataclass(frozen=True)
class Words(Result):
    schema = "words"
    words: tuple[str, ...]

    def to_data(self) -> Mapping[str, Any]:
        return {"words": list(self.words)}

    def rows(self) -> Sequence[Mapping[str, Any]]:
        return [{"word": word, "length": float(len(word))} for word in self.words]


@dataclass(frozen=True)
class Number(Result):
    schema = "number"
    value: float

    def to_data(self) -> Mapping[str, Any]:
        return {"value": self.value}


def test_json_names_its_schema_and_version(tmp_path) -> None:
    expected = {"schema": "words", "schema_version": SCHEMA_VERSION, "words": ["größe", "<b>"]}
    result = Words(("größe", "<b>"))
    result.save(tmp_path / "words.json")
    assert json.loads(result.to_json()) == result.to_dict() == expected
    assert json.loads((tmp_path / "words.json").read_text(encoding="utf-8")) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_json_never_contains_nan(tmp_path, value) -> None:
    with pytest.raises(DataError, match="NaN or infinite, which JSON cannot represent"):
        Number(value).save(tmp_path / "number.json")
    assert not (tmp_path / "number.json").exists()
    assert json_value({"a": [value, (np.float32(1.5), value)], "b": "x"}) == {
        "a": [None, [1.5, None]],
        "b": "x",
    }


def test_html_escapes_words_and_counts_omitted_rows() -> None:
    page = Words(("<b>", *"abcdefghijklmnopqrstuvwxyz"))._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "7 more rows" in page
    assert Words(())._repr_html_() == "<p>no rows</p>"


def test_only_tables_convert_to_pandas() -> None:
    frame = Words(("ab", "c")).to_pandas()
    assert frame.to_dict("list") == {"word": ["ab", "c"], "length": [2.0, 1.0]}
    with pytest.raises(UsageError, match=r"Number is not a table: use to_dict\(\)"):
        Number(1.0).to_pandas()


@pytest.mark.parametrize("loss", [0.0, 2.5, 700.0, 709.7, 709.8, 1e5, 1e300, math.inf, -1e5])
def test_perplexity_is_exp_of_the_loss_or_infinite(loss):
    # 709.78 is the logarithm of the maximum of a float.
    assert perplexity(loss) == pytest.approx(math.exp(loss) if loss < 709.78 else math.inf)
    assert math.isnan(perplexity(math.nan))


@pytest.mark.parametrize("loss", [800.0, 1e30])
def test_perplexity_of_every_kind_of_result_is_infinite_beyond_the_range_of_a_float(loss):
    assert ScoreTotals(num_sentences=1, num_tokens=2, log_probability=-2 * loss).perplexity == math.inf
    assert IterationStats("hmm", 1, 1, -2 * loss, 2, {}).perplexity == math.inf
    assert perplexity_of(-2 * loss, 2) is None
    assert METRIC_FUNCTIONS["perplexity"].aggregate(np.array([[2 * loss, 2]])).tolist() == [math.inf]
