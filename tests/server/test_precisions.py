"""The precision that served models search in."""

from pathlib import Path

import pytest
from served import save_model

from regard.errors import UsageError
from regard.server.engine import load_engines
from regard.server.jobs import SearchSettings


def test_an_unknown_precision_is_named_before_any_model_is_read() -> None:
    with pytest.raises(UsageError, match="'float8': expected float32, bfloat16 or int8"):
        load_engines([Path("nowhere")], "cpu", "float8")


def test_a_models_own_beam_is_within_the_servers_limit(tmp_path: Path, caplog) -> None:
    folder = save_model(tmp_path / "wide")
    config = folder / "config.toml"
    config.write_text(
        config.read_text().replace("beam = 3\n", "beam = 300\n").replace("nbest = 1\n", "nbest = 200\n")
    )
    (engine,) = load_engines([folder], "cpu", beam=4)
    assert (engine.search.beam, engine.search.nbest, engine.facts["beam"]) == (4, 4, 4)
    assert engine.beam(SearchSettings()) == 4
    assert "requests beam 300 and 200 translations; reduced to the server's maximum of 4" in caplog.text
    (engine,) = load_engines([folder], "cpu", beam=300)
    assert engine.search.beam == 300
