"""Tests of `regard translate` with `--required-terms` and `--mbr`."""

from pathlib import Path

import pytest
from test_translate import LINES, run, save_model, translate

from regard.errors import ConfigError, DataError, UsageError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "chosen")


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_translations_contain_the_terms_of_their_line(model, tmp_path):
    terms = write(tmp_path / "terms.txt", ["G F\tA", "", "", "E", "", "B"])
    plain, found = translate(model), translate(model, "--required-terms", terms)
    assert "G F" in found[0] and "A" in found[0].split()
    assert "E" in found[3].split() and "B" in found[5].split()
    assert [found[i] for i in (1, 2, 4)] == [plain[i] for i in (1, 2, 4)]
    for line in translate(model, "--required-terms", terms, "--beam-size", 4, "--num-return", 4, "--mbr", "bleu"):
        number, text, _ = line.split(" ||| ")
        assert number != "0" or "G F" in text


def test_mismatched_term_files_and_sampling_are_rejected(model, tmp_path):
    terms = write(tmp_path / "terms.txt", ["A"] * (len(LINES) - 1))
    with pytest.raises(DataError, match=rf"terms\.txt ends after line {len(LINES) - 1}"):
        translate(model, "--required-terms", terms)
    with pytest.raises(UsageError, match="--sample"):
        translate(model, "--required-terms", terms, "--sample")


@pytest.mark.parametrize("utility", ["bleu", "chrf", "rep"])
def test_candidates_are_sorted_by_expected_utility(model, utility):
    lines = [line.split(" ||| ") for line in translate(model, "--mbr", utility, "--beam-size", 6, "--num-return", 3)]
    assert {number for number, _, _ in lines} == {"0", "2", "3", "4", "5"}
    for number in ("0", "3"):
        scores = [float(score) for line_number, _, score in lines if line_number == number]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True) and scores[0] <= 100
    best = translate(model, "--mbr", utility, "--beam-size", 6)
    assert best[0] == next(text for number, text, _ in lines if number == "0")


def test_mbr_selects_among_samples(model):
    options = ["--sample", "--seed", 3, "--mbr", "chrf", "--mbr-candidates", 5]
    samples = [line.split(" ||| ") for line in translate(model, "--sample", "--seed", 3, "--num-return", 5)]
    for number, text in enumerate(translate(model, *options)):
        candidates = {sample for line_number, sample, _ in samples if line_number == str(number)}
        assert not LINES[number] or text in candidates
    assert translate(model, *options) == translate(model, *options, "--batch-size", 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--mbr", "ter"], ConfigError, "utility"),
        (["--mbr-candidates", 4], UsageError, "--mbr"),
        (["--mbr-weighting", "uniform"], UsageError, "--mbr"),
        (["--mbr", "bleu", "--beam-size", 2, "--mbr-candidates", 4], UsageError, "beam of at least 4, not 2"),
    ],
)
def test_inconsistent_options_are_reported(model, options, error, message):
    with pytest.raises(error, match=message):
        run("translate", model, *options, input="a b\n")
