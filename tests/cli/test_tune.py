"""Tests of `regard tune`, the penalties of `translate` and `score`, and links of given translations."""

import json
import re

import pytest
from command_runs import SOURCE, run, write_lines

from regard.errors import ConfigError, DataError, UsageError


@pytest.fixture
def files(tmp_path):
    """Return source lines, and references that favor strong penalties."""
    references = [f"{line.upper()} A B C D" for line in SOURCE]
    return write_lines(tmp_path / "in.txt", SOURCE), write_lines(tmp_path / "ref.txt", references)


def tune(model, files, *arguments):
    result = run("tune", model, "--source", files[0], "--reference", files[1], *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    "extra", [[], ["--beam-size", "2", "--tokenize", "none", "--lowercase", "--batch-size", "2"]]
)
def test_each_pair_of_penalties_has_the_bleu_of_its_translation(model, files, tmp_path, extra):
    figures = tmp_path / "figures.json"
    lines = tune(
        model, files, "--length-penalties", "0,1.5", "--coverage-penalties", "0,2", "--json", figures, *extra
    )
    content = json.loads(figures.read_text())
    assert content["num_sentences"] == len(SOURCE)
    pairs = []
    for trial, line in zip(content["trials"], lines[1:-1], strict=True):
        alpha, beta = trial["length_penalty"], trial["coverage_penalty"]
        out, scores = tmp_path / "out.txt", tmp_path / "scores.json"
        options = ["--length-penalty", alpha, "--coverage-penalty", beta]
        shared = [extra[i] for i in (0, 1, 5, 6)] if extra else []
        run("translate", model, "--input", files[0], "--output", out, *options, *shared)
        run("evaluate", out, files[1], "--metrics", "bleu", "--json", scores, *extra[2:5])
        expected = json.loads(scores.read_text())["metrics"][0]["score"]
        assert trial["bleu"] == pytest.approx(expected)
        assert line == f"{alpha:g}\t{beta:g}\t{expected:.2f}"
        pairs.append((alpha, beta))
    assert pairs == [(0, 0), (0, 2), (1.5, 0), (1.5, 2)]
    best = max(trial["bleu"] for trial in content["trials"])
    assert content["best"]["bleu"] == best and lines[-1].endswith(f"(BLEU {best:.2f})")
    assert re.match(r"best: --length-penalty \S+ --coverage-penalty \S+ ", lines[-1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--length-penalties", "0,x"], UsageError, "--length-penalties '0,x': expected numbers"),
        (["--coverage-penalties", "-1"], UsageError, "coverage_penalties"),
        (["--coverage-penalties", ""], UsageError, "--coverage-penalties ''"),
        (["--tokenize", "words"], UsageError, "--tokenize 'words'"),
        (["--coverage-epsilon", "0"], ConfigError, "epsilon"),
        (["--reference", "nowhere"], DataError, "nowhere"),
    ],
)
def test_invalid_arguments_are_reported(model, files, arguments, error, message):
    with pytest.raises(error, match=message):
        tune(model, files, *arguments)


def test_penalties_of_translate_and_score_agree(model, files, tmp_path):
    options = ["--length-penalty", 0.7, "--coverage-penalty", 0.8, "--coverage-epsilon", 0.2]
    out = tmp_path / "out.txt"
    run("translate", model, "--input", files[0], "--output", out, "--with-scores", *options)
    lines = [line.split("\t") for line in out.read_text().splitlines()]
    write_lines(out, [text for _, text in lines])
    scored = run("score", model, files[0], out, *options).stdout.splitlines()
    without_coverage = run("score", model, files[0], out, *options[:2]).stdout.splitlines()
    assert without_coverage != scored
    for (score, _), found in zip(lines, scored, strict=True):
        assert found == "nan" if not score else float(found) == pytest.approx(float(score), abs=2e-4)
