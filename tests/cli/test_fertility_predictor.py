"""Tests of `regard fertility`."""

import json
from functools import partial

import pytest
from command_runs import invoke

import regard
from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.data.fertility import parse_bounds
from regard.errors import DataError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.models.rnn.tagger import TaggerConfig
from regard.training.fertility import TaggedSentences, train_predictor

run = partial(invoke, "fertility")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    write_splits(directory, {"train": 40, "valid": 10, "test": 10}, seed=1)
    return directory


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    tagged = []
    for split in ("train", "valid"):
        words = [line.split() for line in (corpus / f"{split}.de").read_text(encoding="utf-8").splitlines()]
        counts = regard.fertilities(corpus / f"{split}.de", links=corpus / f"{split}.talp")
        tagged.append(TaggedSentences(words, [values.tolist() for values in counts]))
    train_predictor(directory / "p", *tagged, TaggerConfig(embedding_size=16, hidden_size=16))
    return directory


def test_predictions_are_valid_fertility_files(trained, corpus, tmp_path):
    result = run(corpus / "test.de", "--predictor", trained / "p", "--slack", 1, "-o", tmp_path / "f")
    assert result.exit_code == 0, result.exception
    sentences = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    lines = (tmp_path / "f").read_text().splitlines()
    for number, (sentence, line) in enumerate(zip(sentences, lines, strict=True), 1):
        bounds = [parse_bounds(field, f"line {number}") for field in line.split()]
        assert len(bounds) == len(sentence.split())
        assert all(minimum == 0 and 2 <= maximum <= 11 for minimum, maximum in bounds)
    found = regard.fertilities(corpus / "test.de", predictor=trained / "p")
    assert lines == list(found.lines(1)) and found.frequencies is None
    words = run(corpus / "test.de", "--predictor", trained / "p", "--per-word").stdout.splitlines()
    assert [line.split("\t")[0] for line in words] == [row["word"] for row in found.rows()]


def test_fertilities_for_a_model_are_per_token(trained, corpus, tmp_path):
    pair = {"source": str(corpus / "train.de"), "target": str(corpus / "train.en")}
    bpe = {"kind": "bpe", "num_merges": 5, "tokenized": True}
    plain = {"cache_dir": str(tmp_path / "prepared"), "train": [pair], "valid": pair}
    text = prepare_data(
        from_dict(DataConfig, {**plain, "source_tokenizer": bpe, "target_tokenizer": bpe})
    ).text
    sentences = (corpus / "train.de").read_text(encoding="utf-8").splitlines()
    lengths = [len(text.source.tokenize(line)) for line in sentences]
    assert sum(lengths) > 2 * sum(len(line.split()) for line in sentences)
    model = "--model", tmp_path / "prepared"
    for options in ((corpus / "train.en",), ("--predictor", trained / "p")):
        result = run(corpus / "train.de", *options, *model, "-o", tmp_path / "f", "--num-threads", 1)
        assert result.exit_code == 0, result.exception
        lines = (tmp_path / "f").read_text().splitlines()
        assert [len(line.split()) for line in lines] == lengths


def test_links_are_counted_by_word(tmp_path):
    # A Japanese token may contain U+3000, which separates no words.
    (tmp_path / "source").write_text("a b a\n1\u3000章 a\n\n", encoding="utf-8")
    (tmp_path / "links").write_text("0-0 0-1 2-2\n0-0\n\n", encoding="utf-8")
    result = run(tmp_path / "source", "--links", tmp_path / "links", "--json", tmp_path / "out.json")
    assert result.stdout == "2 1 1\n1 1\n\n"
    found = regard.fertilities(tmp_path / "source", links=[{(0, 0), (0, 1), (2, 2)}, {(0, 0)}, []])
    assert [one.tolist() for one in found] == [[2, 0, 1], [1, 0], []]
    assert found.frequencies == {0: 2, 1: 2, 2: 1} and found.to_dict()["mean"] == 4 / 5
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(found.to_json())
    assert found.rows()[0] == {"word": "a", "maximum": 2, "mean": 1.0, "count": 3}
    for wrong, message in (("0-0 3-0\n\n\n", "links:1: link 3-0 points beyond"), ("0-0\n", "has 1 lines")):
        (tmp_path / "links").write_text(wrong)
        with pytest.raises(DataError, match=message):
            regard.fertilities(tmp_path / "source", links=tmp_path / "links")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"targets": ["x"], "links": [[]]},
        {"links": [[]], "model": "m"},
        {"links": [[]], "seed": 2},
        {"predictor": "p", "kind": "ibm1"},
    ],
)
def test_inconsistent_arguments_are_rejected(arguments):
    with pytest.raises(UsageError):
        regard.fertilities(["a"], **arguments)
