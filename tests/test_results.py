"""The laws of all results: JSON with a version, escaped HTML, and clear errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from regard.errors import UsageError
from regard.results import SCHEMA_VERSION, Result


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


def test_json_never_contains_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Number(float("nan")).to_json()


def test_html_escapes_words_and_counts_omitted_rows() -> None:
    page = Words(("<b>", *"abcdefghijklmnopqrstuvwxyz"))._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "7 more rows" in page
    assert Words(())._repr_html_() == "<p>no rows</p>"


def test_tables_convert_to_pandas() -> None:
    frame = Words(("ab", "c")).to_pandas()
    assert frame.to_dict("list") == {"word": ["ab", "c"], "length": [2.0, 1.0]}


def test_result_without_a_table_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Number is not a table: use to_dict\(\)"):
        Number(1.0).to_pandas()
