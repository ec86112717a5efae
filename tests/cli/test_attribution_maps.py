"""Tests of `--map` and of `regard analyze faithfulness`: attributions replace attention everywhere."""

import numpy as np
import pytest
from command_runs import REFERENCE, SOURCE, analysis_data, analyze, run

import regard
from regard.errors import ConfigError, UsageError


@pytest.mark.parametrize("method", ["gradient", "leave_one_out"])
def test_commands_and_python_show_the_same_links(model, files, method):
    links = files / "links.txt"
    run("score", model, files / "in.txt", files / "ref.txt", "--map", method, "--links-output", links)
    python = regard.load(model).score(SOURCE, REFERENCE, map=method)
    assert links.read_text().splitlines() == [" ".join(f"{i}-{j}" for i, j in x.alignment) for x in python]
    analysis = analysis_data("attention", [model], files, "--map", method, "--lines", 1)
    (found,) = analysis["models"].values()
    assert found["alignment"]["map"] == method
    assert [line["links"] for line in found["lines"]] == list(filter(None, links.read_text().splitlines()))
    (maps,) = analysis["maps"][0]["maps"].values()
    np.testing.assert_allclose(maps["weights"], python[0].word_attention_map.weights, atol=1e-5)


def test_faithfulness_table_has_a_row_for_each_map(model, files):
    lines = analyze("faithfulness", [model], files, "--figures-dir", files).stdout.splitlines()
    found = analysis_data("faithfulness", [model], files)
    assert [line.split()[1] for line in lines[1:]] == ["attention", "gradient", "leave_one_out"]
    python = regard.analyze.faithfulness(model, SOURCE, REFERENCE)
    assert python.to_dict()["models"].keys() == found["models"].keys()
    (one,), (other,) = found["models"].values(), python.to_dict()["models"].values()
    assert one["maps"].keys() == other["maps"].keys() and one["num_sentences"] == 5
    for method, row in one["maps"].items():
        value = row["most_attributed"]["value"]
        assert value == pytest.approx(other["maps"][method]["most_attributed"]["value"], abs=1e-4)
        assert value <= one["largest"]["value"] + 1e-6
        assert row["most_attributed"]["low"] <= value <= row["most_attributed"]["high"]
    assert "leave_one_out" in repr(python) and len(python.rows()) == 3
    assert "Fall of the probability" in (files / "faithfulness.svg").read_text(encoding="utf-8")


def test_one_map_and_a_layer_can_be_chosen(model, files):
    for options in (("--map", "leave_one_out"), ("--map", "attention", "--layer", 0)):
        assert len(analyze("faithfulness", [model], files, *options).stdout.splitlines()) == 2
    with pytest.raises(UsageError, match="map 'saliency': expected one of attention, gradient"):
        analyze("faithfulness", [model], files, "--map", "saliency")


def test_impossible_maps_are_refused_with_one_message(model, files):
    arguments = ("score", model, files / "in.txt", files / "ref.txt", "--map")
    with pytest.raises(ConfigError, match="layer and heads select attention"):
        run(*arguments, "gradient", "--layer", 0)
