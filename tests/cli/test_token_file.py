"""Tests of `score` with saved tokens: a translation gets the probability with which it was generated."""

import json
from pathlib import Path

import pytest
from command_runs import run, write_lines

import regard
from regard.config import to_dict
from regard.data.text import TextSide
from regard.errors import DataError
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import STEP, ActionsConfig, ActionsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from saved_models import LSTM, save_model

# With this seed, models generate translations whose text is tokenized differently when it is read again.
SEED = 20
LINES = ["a b c", "", "d a", "c c c c", "b", "a b d c a b"]
BPE = BytePairTokenizer(BytePairConfig(tokenized=True, joint=False), b"#version: 0.2\na b</w>\n")
KINDS = {
    # The tokens "a@@ b" have the text "ab", which is encoded as the single token "ab".
    "bpe": (BPE, ("a@@", "b", "ab"), "constrained", 2.0),
    # Step actions do not occur in the text.
    "actions": (ActionsTokenizer(ActionsConfig()), (STEP, "a", "b"), "pointer", None),
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request, tmp_path_factory) -> Path:
    tokenizer, tokens, kind, fertility = KINDS[request.param]
    decoder = {"hidden_size": 8, "query": "previous", "input_feeding": "context"}
    return save_model(
        tmp_path_factory.mktemp(request.param),
        SEED,
        model={**LSTM, "decoder": decoder, "init_range": 1.0},
        attention={"kind": kind},
        fertility=fertility,
        source="a b c d",
        target=TextSide(tokenizer, Vocabulary((*SPECIAL_TOKENS, *tokens))),
        data={"target_tokenizer": to_dict(tokenizer.config)},
        generation={"min_length": 3},
    )


@pytest.fixture
def files(directory: Path, tmp_path: Path) -> dict[str, Path]:
    """Return files with source lines, their translations, scores, tokens and attention."""
    paths = {name: tmp_path / name for name in ("source", "target", "tokens", "attention", "scores")}
    write_lines(paths["source"], LINES)
    options = ["--tokens-output", paths["tokens"], "--attention-output", paths["attention"]]
    options += ["--length-penalty", 0, "--with-scores"]
    lines = run("translate", directory, "--input", paths["source"], *options).stdout.splitlines()
    scores, texts = zip(*(line.split("\t") for line in lines), strict=True)
    write_lines(paths["target"], texts)
    write_lines(paths["scores"], scores)
    return paths


@pytest.mark.parametrize("saved", ["tokens", "attention"])
def test_scores_of_saved_tokens_equal_those_of_translate(
    directory: Path, files: dict[str, Path], saved: str
) -> None:
    summary = files["source"].with_name("summary.json")
    arguments = ("score", directory, files["source"], files["target"], "--json", summary)
    expected_lines = files["scores"].read_text().split("\n")[:-1]
    found = run(*arguments, "--tokens-from", files[saved])
    for given, expected in zip(found.stdout.split("\n")[:-1], expected_lines, strict=True):
        assert (given == "nan") == (expected == "")
        if expected:
            assert float(given) == pytest.approx(float(expected), abs=2e-4)
    content = json.loads(summary.read_text())
    count = content["num_retokenized"]
    assert count == sum(one["retokenized"] for one in content["sentences"])
    assert count > 0
    assert f"{count} lines were tokenized differently" in found.stderr
    from_text = run(*arguments)
    differing = sum(a != b for a, b in zip(from_text.stdout.split(), found.stdout.split(), strict=True))
    assert 0 < differing <= count
    assert json.loads(summary.read_text())["num_retokenized"] == 0


def test_python_results_are_scored_with_their_tokens(directory: Path) -> None:
    model = regard.load(directory, length_penalty=0.0)
    texts = [line for line in LINES if line]
    results = model.translate(texts)
    again = model.score(texts, results)
    assert [one.tokens for one in again] == [one.tokens for one in results]
    for one, other in zip(again, results, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.retokenized == (model.score(one.source, one.text).tokens != one.tokens)
    assert any(one.retokenized for one in again)
    single = model.score(texts[0], results[0])
    assert single.log_probability == pytest.approx(again[0].log_probability, abs=1e-4)
    # For another source sentence, only the tokens of the translation are reused.
    other = model.score("d d", results[0])
    assert other.tokens == results[0].tokens and other.source_tokens[:2] == ("d", "d")
    mixed = model.score(texts[:2], [results[0], results[1].text])
    assert mixed[0].tokens == results[0].tokens and not mixed[1].retokenized


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "tokens has only 5 lines, fewer than the text"),
        (lambda lines: [*lines, lines[0]], "tokens has more lines than the text, which has 6"),
        (
            lambda lines: ["{}", *lines[1:]],
            "tokens:1: the line was not written by .*: field required",
        ),
        (lambda lines: [lines[0], "[" * 100_000, *lines[2:]], "tokens:2: the line was not written by"),
        (
            lambda lines: [lines[0].replace('"tokens": [', '"tokens": ["",'), *lines[1:]],
            "tokens:1: the line was not written by",
        ),
        (
            lambda lines: [lines[0].replace('"text": "', '"text": "x'), *lines[1:]],
            "tokens:1: the tokens belong to '",
        ),
    ],
)
def test_tokens_of_other_text_are_rejected(
    directory: Path, files: dict[str, Path], change, message: str
) -> None:
    lines = change(files["tokens"].read_text().split("\n")[:-1])
    write_lines(files["tokens"], lines)
    with pytest.raises(DataError, match=message):
        run("score", directory, files["source"], files["target"], "--tokens-from", files["tokens"])
