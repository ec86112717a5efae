"""The API, the sentence splitter, `translate`, `score` and Python treat plain text in the same way."""

import json
from pathlib import Path

import pytest
from command_runs import run, translate
from served import ask, save_model

import regard
from regard.extensions.serve.engine import load_engines

PLAIN, TOKENIZED = "a b, c (d).", "a b , c ( d ) ."


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("served") / "model", tokenized=True)


def post(directory: Path, address: str, payload: dict) -> dict:
    """Return the JSON response to a POST request."""
    answer = ask(load_engines([directory], "cpu"), lambda client: client.post(address, json=payload))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_plain_and_tokenized_text_give_the_same_results(directory: Path, tmp_path: Path) -> None:
    answers = [
        post(directory, "/translate", {"text": text, "split": split})["sentences"][0]
        for text in (PLAIN, TOKENIZED)
        for split in (True, False)
    ]
    words = TOKENIZED.split()
    assert [answer["source_words"] for answer in answers] == [words] * 4
    text = answers[0]["text"]
    assert [one["text"] for one in answers] == [text] * 4
    assert translate(directory, input=f"{PLAIN}\n{TOKENIZED}\n") == [text] * 2
    model = regard.load(directory)
    assert model.translate(PLAIN).text == model.translate(TOKENIZED).text == text
    (source, target) = (tmp_path / name for name in ("source", "target"))
    source.write_text(f"{PLAIN}\n{TOKENIZED}\n")
    target.write_text("A B!\nA B !\n")
    scores = run("score", directory, source, target).stdout.split()
    assert scores[0] == scores[1]
    pairs = [{"source": PLAIN, "target": "A B!"}, {"source": TOKENIZED, "target": "A B !"}]
    scored = post(directory, "/score", {"pairs": pairs})["sentences"]
    assert scored[0]["source_tokens"] == scored[1]["source_tokens"] == words
    assert scored[0]["tokens"] == scored[1]["tokens"] == ["A", "B", "!"]
    assert f"{scored[0]['log_probability']:.4f}" == scores[0]


def test_text_marked_as_tokenized_is_not_changed(directory: Path, tmp_path: Path) -> None:
    words = PLAIN.split()
    answer = post(directory, "/translate", {"text": PLAIN, "tokenized": True})["sentences"][0]
    assert answer["source_words"] == words
    attention = tmp_path / "attention.jsonl"
    translate(directory, "--tokenized", "--attention-output", attention, input=PLAIN + "\n")
    assert [word for word in json.loads(attention.read_text())["source_tokens"]] == words
    assert list(regard.load(directory, tokenized=True).translate(PLAIN).source_tokens) == words
    pairs = [{"source": PLAIN, "target": "A."}]
    scored = post(directory, "/score", {"pairs": pairs, "tokenized": True})["sentences"][0]
    assert (scored["source_tokens"], scored["tokens"]) == (words, ["A."])
    (tmp_path / "source").write_text(PLAIN + "\n")
    (tmp_path / "target").write_text("A.\n")
    files = tmp_path / "source", tmp_path / "target"
    tokens = run("score", directory, *files, "--tokenized", "--token-scores").stdout.split()
    assert [token.rpartition("|")[0] for token in tokens] == ["A.", "</s>"]


def test_sentences_are_split_by_language_of_request_or_model(directory: Path) -> None:
    text = "Am 3. Mai kam er. Ja"
    german, english = ["Am 3. Mai kam er.", "Ja"], ["Am 3.", "Mai kam er.", "Ja"]
    for more, expected in (({}, german), ({"language": "de"}, german), ({"language": "en"}, english)):
        found = post(directory, "/translate", {"text": text, **more})["sentences"]
        assert [one["source"] for one in found] == expected
    for more, expected in (({}, english), ({"language": "de"}, german)):
        found = post(directory, "/split", {"text": text, **more})["sentences"]
        assert [one["text"] for one in found] == expected


def test_fertilities_refer_to_tokenized_words(tmp_path: Path) -> None:
    directory = save_model(tmp_path / "bounded", fertility=2.0, tokenized=True)
    payload = {"text": PLAIN, "fertilities": [{"word": 7, "upper": 0.0}]}
    bounds = post(directory, "/translate", payload)["sentences"][0]["fertility_bounds"]
    assert len(bounds) == 8 and bounds[7]["upper"] == 0.0
