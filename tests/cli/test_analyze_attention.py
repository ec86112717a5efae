"""Tests of `regard analyze attention`: its output agrees with `score` and `evaluate`; figures are files."""

import json
import xml.etree.ElementTree as ET
from functools import partial

import pytest
from command_runs import SOURCE, analysis_data, analyze, run

from regard.errors import DataError, UsageError
from saved_models import save_model, subword_side


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return two models with soft attention, and one with constrained attention and a sink."""
    directory = tmp_path_factory.mktemp("models")
    return [
        save_model(directory / "soft"),
        save_model(directory / "other", seed=1),
        save_model(directory / "bound", fertility=0.75),
    ]


def subword_model(directory):
    """Save the model `soft` with source words that are split into characters."""
    return save_model(directory, source=subword_side("a@@ b c d@@ e f g"))


run_analysis, figures = partial(analyze, "attention"), partial(analysis_data, "attention")


def test_empty_text_has_no_perplexity(models, files):
    for name in ("in.txt", "ref.txt"):
        (files / name).write_text("\n\n", encoding="utf-8")
    result = run("score", models[0], files / "in.txt", files / "ref.txt", "--json", files / "s.json")
    assert result.exit_code == 0 and "0 sentences, 0 tokens, no perplexity" in result.output
    assert json.loads((files / "s.json").read_text())["perplexity"] is None


@pytest.mark.parametrize("which", [0, 2])
def test_output_agrees_with_score_and_evaluate(models, files, which):
    found = figures([models[which]], files, "--gold-links", files / "gold.talp")["models"]
    (found,) = found.values()
    links, scores = files / "links.txt", files / "scores.json"
    texts = files / "in.txt", files / "ref.txt"
    run("score", models[which], *texts, "--links-output", links, "--json", scores)
    assert found["perplexity"] == pytest.approx(json.loads(scores.read_text())["perplexity"], rel=1e-5)
    assert found["steps"] == json.loads(scores.read_text())["num_tokens"]
    written_links = links.read_text().splitlines()
    expected = [written_links[line["line"] - 1] for line in found["lines"]]
    assert [line["links"] for line in found["lines"]] == expected
    gold = ("--gold-links", files / "gold.talp", "--predicted-links", links)
    run("evaluate", *gold, "--json", scores, "--num-bootstrap-samples", 2)
    expected = json.loads(scores.read_text())["word_links"]
    for name in ("aer", "precision", "recall"):
        assert found[name] == pytest.approx(expected[name])
    assert found["one_minus_aer"] == pytest.approx(1 - found["aer"])


def test_totals_equal_the_sums_over_sentences(models, files):
    (found,) = figures(models[:1], files)["models"].values()
    assert [line["line"] for line in found["lines"]] == [1, 2, 4, 5, 6]
    right = [value for line in found["lines"] for value in line["correct"]]
    entropies = [value for line in found["lines"] for value in line["entropy"]]
    assert found["steps"] == len(right) == sum(found["entropies"]["counts"])
    assert found["accuracy"] == pytest.approx(sum(right) / len(right))
    assert found["entropy"] == pytest.approx(sum(entropies) / len(entropies), abs=1e-5)
    assert sum(found["entropies"]["num_correct"]) == sum(right)
    assert found["coverage"] == pytest.approx(sum(x["coverage"] for x in found["lines"]) / 5, abs=1e-5)


def test_tables_agree_with_the_json_file(models, files):
    found = figures(models[:2], files, "--gold-links", files / "gold.talp", "--bin-width", "0.5")["models"]
    text = run_analysis(models[:2], files, "--gold-links", files / "gold.talp", "--bin-width", "0.5").stdout
    single, entropies, coverages = (
        [line.split("\t") for line in table.splitlines()] for table in text.split("\n\n")
    )
    assert single[0][0] == "model" and single[0][-2:] == ["AER %", "1 - AER"]
    for row, (name, one) in zip(single[1:], found.items(), strict=True):
        assert row[:3] == [name, "5", str(one["steps"])]
        assert row[4:6] == [f"{100 * one['accuracy']:.2f}", f"{one['entropy']:.4f}"]
        assert row[-2:] == [f"{100 * one['aer']:.2f}", f"{1 - one['aer']:.3f}"]
    assert entropies[0] == ["entropy", "soft steps %", "soft accuracy %", "other steps %", "other accuracy %"]
    assert [row[0] for row in entropies[1:3]] == ["0 to 0.5", "0.5 to 1"]
    for table, column in ((entropies, 1), (entropies, 3), (coverages, 1), (coverages, 2)):
        assert sum(float(row[column]) for row in table[1:]) == pytest.approx(100, abs=0.1)


def test_posterior_attention_differs_from_its_prior_and_gives_the_links(files, tmp_path):
    attention = {"kind": "posterior", "coupling": "monotonic", "posterior_weight": 1.0}
    directory = save_model(tmp_path / "posterior", attention=attention)
    after, before = (figures([directory], files, *options) for options in ((), ("--prior",)))
    assert (after["attention"], before["attention"]) == ("posterior", "prior")
    after, before = after["models"]["posterior"], before["models"]["posterior"]
    assert after["perplexity"] == before["perplexity"] and after["accuracy"] == before["accuracy"]
    assert abs(after["entropy"] - before["entropy"]) > 1e-5
    links = files / "links.txt"
    run("score", directory, files / "in.txt", files / "ref.txt", "--links-output", links)
    written_links = [line for line in links.read_text().splitlines() if line]
    assert [line["links"] for line in after["lines"]] == written_links
    assert [line["links"] for line in before["lines"]] != written_links


def test_figures_are_written_as_files(models, files):
    directory = files / "new" / "figures"
    options = ("--figures-dir", directory, "--lines", "1,4", "--gold-links", files / "gold.talp")
    result = run_analysis(models, files, *options)
    maps = [
        f"{name}.svg"
        for n in (1, 4)
        for name in (f"maps-{n}", *(f"difference-{n}-{m}" for m in ("other", "bound")))
    ]
    assert sorted(path.name for path in directory.iterdir()) == sorted(["entropy.svg", "coverage.svg", *maps])
    assert result.stderr.count("wrote ") == 8
    for path in directory.iterdir():
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
        if path.name.startswith("maps-4"):
            assert {"soft", "other", "bound", "<sink>", *"fgabe", *"FGABE"} <= texts


def test_default_plotted_line_has_the_largest_difference(models, files):
    found = figures(models[:2], files, "--figures-dir", files / "figures")["models"]
    sums = [[sum(line["entropy"]) for line in one["lines"]] for one in found.values()]
    differences = [abs(a - b) for a, b in zip(*sums, strict=True)]
    line = found["soft"]["lines"][differences.index(max(differences))]["line"]
    names = sorted(path.name for path in (files / "figures").iterdir())
    assert names == ["coverage.svg", f"difference-{line}.svg", "entropy.svg", f"maps-{line}.svg"]


def test_maps_show_words_instead_of_subword_tokens(models, files, tmp_path):
    subwords = subword_model(tmp_path / "subwords")
    (files / "in.txt").write_text("ab c\n" * len(SOURCE))
    result = run_analysis([subwords, models[0]], files, "--figures-dir", files / "figures", "--lines", 1)
    assert "is not plotted" not in result.stderr and (files / "figures" / "difference-1.svg").is_file()
    root = ET.fromstring((files / "figures" / "maps-1.svg").read_text())
    assert {"ab", "c"} <= {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_models_with_the_same_name_are_distinguished(models, files, tmp_path):
    twin = tmp_path / "elsewhere"
    twin.mkdir()
    twin = save_model(twin / "soft", seed=2)
    assert list(figures([models[0], twin], files)["models"]) == [str(models[0]), str(twin)]
    named = figures([models[0], twin], files, "--names", "Soft, Postr-Joint")["models"]
    assert list(named) == ["Soft", "Postr-Joint"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", 1], "layer 1: soft attends to the source in 1 layers, counted from 0; -1 is the last"),
        (["--head", 1], "head 1: layer -1 of soft has 1 heads, counted from 0"),
        (["--lines", 7], "--lines 7: .*in.txt has only 6 lines"),
        (["--names", "a,b"], "2 names but there are 1 models"),
        (["--names", ""], "names of the models must be different"),
    ],
)
def test_inconsistent_options_are_reported(models, files, arguments, message):
    with pytest.raises(UsageError, match=message):
        run_analysis(models[:1], files, *arguments)


def test_mismatched_gold_links_are_reported(models, files):
    gold = files / "gold.talp"
    gold.write_text("0-0\n")
    with pytest.raises(DataError, match=r"gold\.talp has 1 lines but .*in\.txt has 6"):
        run_analysis(models[:1], files, "--gold-links", gold)
    gold.write_text("0-0\n0p5\n\n\n\n\n")
    with pytest.raises(
        DataError, match=r"gold\.talp:2: link 0-5 points .* reference .* 2 words with .* of soft"
    ):
        run_analysis(models[:1], files, "--gold-links", gold)


def test_models_without_attention_are_rejected(files, tmp_path):
    directory = save_model(tmp_path / "blind", attention={"kind": "none"})
    with pytest.raises(UsageError, match="blind has no attention to the source"):
        run_analysis([directory], files)
