"""Tests of the check and repair of translations with an exact detector, and of the command."""

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from cli.command_runs import LINES, run, translate
from quick_coverage import train_quickly
from regard.errors import ConfigError, DataError, UsageError
from regard.extensions.check.api import CoverageModel
from regard.extensions.check.base import WordPair
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.model_files import save_coverage_model
from regard.generation.base import BaseTranslator, FileTranslator
from regard.generation.lines import Line
from regard.generation.repair import Repair, configure_translator
from regard.generation.reranking import CoverageJudgment
from saved_models import save_model

SENTENCES = ["a b c", "d", "e f g a b", "g f", "c c c c", "b d f a"]


class UpperCase:
    """The detector of the language pair in which a word is translated by its upper case."""

    def judge(self, sources, translations) -> list[CoverageJudgment]:
        return [self._one(a.split(), b.split()) for a, b in zip(sources, translations, strict=True)]

    @staticmethod
    def _one(source: list[str], target: list[str]) -> CoverageJudgment:
        omitted = tuple(0.0 if word.upper() in target else 0.9 for word in source)
        repeated = sum(target.count(word) - 1 for word in set(target))
        worst = max(omitted, default=0.0)
        return CoverageJudgment(tuple(source), omitted, worst, 0.0, 0.0, sum(omitted) + repeated)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    words = [tuple(random.choice(list("abcdefg"), random.integers(2, 7))) for _ in range(200)]
    # The target words differ from the source words, which a coverage model would take as copies.
    pairs = [WordPair(one, tuple(f"{word}{word}" for word in one)) for one in words]
    directory = tmp_path_factory.mktemp("checkers") / "upper"
    with pytest.MonkeyPatch.context() as patch:
        train_quickly(patch, 800)
        save_coverage_model(ErrorModel.train(pairs, num_threads=1), directory)
    return directory


def lines() -> list[Line]:
    return [Line(number, text) for number, text in enumerate(SENTENCES, 1)]


def repairing(translator: BaseTranslator, **options) -> BaseTranslator:
    return configure_translator(translator, repair=Repair(**options), checker=UpperCase())


def test_repair_lowers_the_expected_errors_within_the_allowed_loss(tmp_path) -> None:
    model = regard.load(save_model(tmp_path / "bounded", fertility=2.0))
    before = model.backend.translate_block(lines())
    after = repairing(model.backend, max_loss=5).translate_block(lines())
    assert any(new.repair.changed for new in after)
    for old, new in zip(before, after, strict=True):
        record = new.repair
        assert record.text_before == old.text
        assert record.changed == (new.text != old.text)
        if record.changed:
            assert record.after.errors < record.before.errors
            assert record.log_probability_after >= record.log_probability_before - 5
        else:
            assert new.tokens == old.tokens and record.after == record.before
        # The record describes the text that is returned.
        assert UpperCase().judge([new.source], [new.text]) == [record.after]
        scored = model.score(new.source, new.text).log_probability
        assert record.log_probability_after == pytest.approx(scored, abs=1e-4)


def test_high_threshold_and_no_loss_limit_the_changes(plain) -> None:
    translator = regard.load(plain).backend
    for one in repairing(translator, threshold=0.95).translate_block(lines()):
        assert not one.repair.changed
    for one in repairing(translator, max_loss=0).translate_block(lines()):
        assert one.repair.log_probability_after >= one.repair.log_probability_before


def test_a_line_is_repaired_alone_as_in_a_block(plain) -> None:
    model = regard.load(plain)
    wrapped = repairing(model.backend)
    together = [one.text for one in wrapped.translate(lines())]
    assert together == [next(wrapped.translate([line])).text for line in lines()]
    assert together != [one.text for one in model.backend.translate(lines())]


def test_unsupported_requests_get_one_message(plain) -> None:
    model, checker, repair = regard.load(plain), UpperCase(), regard.Repair()
    with pytest.raises(UsageError, match=r"--check.*not supported"):
        repairing(FileTranslator(["A"]))
    with pytest.raises(UsageError, match=r"repair .* needs a checker"):
        model.translate(SENTENCES, repair=repair)
    for options in ({"sampling": regard.Sampling()}, {"mbr": regard.MBR()}):
        with pytest.raises(UsageError, match="leave out --sample and --mbr"):
            model.translate(SENTENCES, repair=repair, checker=checker, **options)
    with pytest.raises(UsageError, match=r"checker .* needs repair"):
        model.translate(SENTENCES, checker=checker)


def test_coverage_model_finds_omitted_words(checker) -> None:
    judge = CoverageModel.load(checker, 1)
    good, short = judge.judge(["a b c d", "a b c d"], ["aa bb cc dd", "aa bb"])
    assert good.source_words == ("a", "b", "c", "d")
    assert short.errors > good.errors and short.omission > good.omission
    assert min(short.omitted[2:]) > max(good.omitted)


def test_command_reports_changes_and_writes_their_record(plain, checker, tmp_path) -> None:
    output = tmp_path / "tokens.jsonl"
    options = ["--check", "--checker", checker, "--check-threshold", 0.01, "--tokens-output", output]
    found = translate(plain, *options)
    records = [json.loads(line)["repair"] for line in output.read_text(encoding="utf-8").splitlines()]
    assert len(found) == len(records) == len(LINES)
    before = translate(plain)
    for line, text, old, record in zip(LINES, found, before, records, strict=True):
        assert (record is None) == (not line)
        assert record is None or (record["text_before"] == old and record["changed"] == (text != old))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--check-threshold", 0.5], UsageError, "--check-threshold needs --check"),
        (["--check", "--checker", "DIR", "--check-threshold", 2], ConfigError, "threshold"),
        (["--check", "--checker", "nowhere"], DataError, "nowhere"),
    ],
)
def test_wrong_options_get_one_message(plain, options, error, message) -> None:
    with pytest.raises(error, match=message):
        run("translate", plain, *options, input="a b\n")
