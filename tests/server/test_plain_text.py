"""The API, the page's split sentences, `translate`, `score` and Python read plain text alike."""

import json
from pathlib import Path

import pytest
from served import ask, save_model
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.server.engine import load_engines

PLAIN, TOKENIZED = "a b, c (d).", "a b , c ( d ) ."


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("served") / "model", tokenized=True)


def post(folder: Path, address: str, asked: dict) -> dict:
    async def work(client):
        answer = await client.post(address, json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask(load_engines([folder], "cpu"), work)


def command(*arguments: str, text: str | None = None) -> str:
    run = CliRunner().invoke(app, [*arguments], input=text, catch_exceptions=False)
    assert run.exit_code == 0, run.output
    return run.stdout


def test_plain_and_tokenised_text_are_one_sentence_everywhere(folder: Path, tmp_path: Path) -> None:
    answers = [
        post(folder, "/translate", {"text": text, "split": split})["sentences"][0]
        for text in (PLAIN, TOKENIZED)
        for split in (True, False)
    ]
    words = TOKENIZED.split()
    assert [answer["source_words"] for answer in answers] == [words] * 4
    best = [answer["translations"][0] for answer in answers]
    assert [one["text"] for one in best] == [best[0]["text"]] * 4
    assert command("translate", str(folder), text=f"{PLAIN}\n{TOKENIZED}\n") == f"{best[0]['text']}\n" * 2
    model = regard.load(folder)
    assert model.translate(PLAIN).text == model.translate(TOKENIZED).text == best[0]["text"]
    (source, target) = (tmp_path / name for name in ("source", "target"))
    source.write_text(f"{PLAIN}\n{TOKENIZED}\n")
    target.write_text("A B.\nA B .\n")
    scores = command("score", str(folder), str(source), str(target)).split()
    assert scores[0] == scores[1]
    pairs = [{"source": PLAIN, "target": "A B."}, {"source": TOKENIZED, "target": "A B ."}]
    scored = post(folder, "/score", {"pairs": pairs})["pairs"]
    assert scored[0]["source_tokens"] == scored[1]["source_tokens"] == words
    assert scored[0]["tokens"] == scored[1]["tokens"] == ["A", "B", "."]
    assert f"{scored[0]['log_probability']:.4f}" == scores[0]


def test_text_said_to_be_tokenised_stays_as_it_is_everywhere(folder: Path, tmp_path: Path) -> None:
    words = PLAIN.split()
    answer = post(folder, "/translate", {"text": PLAIN, "tokenized": True})["sentences"][0]
    assert answer["source_words"] == words
    attention = tmp_path / "attention.jsonl"
    command("translate", str(folder), "--tokenized", "--attention", str(attention), text=PLAIN + "\n")
    assert [word for word in json.loads(attention.read_text())["source"]] == words
    assert list(regard.load(folder, tokenized=True).translate(PLAIN).source_tokens) == words
    pairs = [{"source": PLAIN, "target": "A."}]
    scored = post(folder, "/score", {"pairs": pairs, "tokenized": True})["pairs"][0]
    assert (scored["source_tokens"], scored["tokens"]) == (words, ["A."])
    (tmp_path / "source").write_text(PLAIN + "\n")
    (tmp_path / "target").write_text("A.\n")
    files = [str(tmp_path / name) for name in ("source", "target")]
    tokens = command("score", str(folder), *files, "--tokenized", "--tokens").split()
    assert [token.rpartition("|")[0] for token in tokens] == ["A.", "</s>"]


def test_sentences_end_by_the_language_of_the_model_or_of_the_request(folder: Path) -> None:
    text = "Am 3. Mai kam er. Ja"
    german, english = ["Am 3. Mai kam er.", "Ja"], ["Am 3.", "Mai kam er.", "Ja"]
    for more, expected in (({}, german), ({"language": "de"}, german), ({"language": "en"}, english)):
        found = post(folder, "/translate", {"text": text, **more})["sentences"]
        assert [one["source"] for one in found] == expected
    for more, expected in (({}, english), ({"language": "de"}, german)):
        found = post(folder, "/split", {"text": text, **more})["sentences"]
        assert [one["text"] for one in found] == expected


def test_fertilities_count_the_words_that_were_set_apart(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "bounded", fertility=2.0, tokenized=True)
    asked = {"text": PLAIN, "fertilities": [{"word": 7, "most": 0.0}]}
    bounds = post(folder, "/translate", asked)["sentences"][0]["bounds"]
    assert len(bounds) == 8 and bounds[7]["most"] == 0.0
