"""Precision and beam size of served models."""

from pathlib import Path

import pytest
from served import save_model

from regard.errors import UsageError
from regard.extensions.serve.engine import SearchSettings, load_engines


def test_unknown_precision_is_rejected_before_loading() -> None:
    with pytest.raises(UsageError, match="'float8': expected float32 or bfloat16"):
        load_engines([Path("nowhere")], "cpu", "float8")


def test_beam_size_of_a_model_is_limited_by_the_server(tmp_path: Path, caplog) -> None:
    directory = save_model(tmp_path / "wide")
    config = directory / "config.toml"
    config.write_text(
        config.read_text()
        .replace("beam_size = 3\n", "beam_size = 300\n")
        .replace("num_return = 1\n", "num_return = 200\n")
    )
    (engine,) = load_engines([directory], "cpu", max_beam_size=4)
    assert (engine.search.beam_size, engine.search.num_return, engine.properties["beam_size"]) == (4, 4, 4)
    assert engine.beam_size(SearchSettings()) == 4
    assert "requests beam 300 and 200 translations; reduced to the server's maximum of 4" in caplog.text
    (engine,) = load_engines([directory], "cpu", max_beam_size=300)
    assert engine.search.beam_size == 300
