"""Served models: examples, plain translations, names, errors in words, precision and beam size."""

from dataclasses import replace

import pytest

from extensions.serve.served import ask, save_model
from regard.data.dataset import prepare_data
from regard.data.text import TextProcessor
from regard.data.training_text import save_training_text
from regard.errors import DataError
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import SearchSettings, SentenceJob, example_sentences, load_engines
from regard.training.run_config import load_config


def test_answers_have_plain_texts_of_all_translations(tmp_path):
    (engine,) = load_engines([save_model(tmp_path / "model", tokenized=True)], "cpu")
    (answer,) = engine.process_batch(SearchSettings(num_return=3), [SentenceJob("a b c")])
    texts = [answer["text"], *(one["text"] for one in answer["alternatives"])]
    assert answer["plain_texts"] == texts and len(texts) == 3


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Return a model directory that contains its training text."""
    monkeypatch.chdir(tmp_path)
    path = save_model(tmp_path / "model", tokenized=True)
    lines = ["a b c d", "a b", "e f g zebra", "g f e d c , b", "a a a a a"]
    for side in "st":
        (tmp_path / side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = replace(load_config(path).data, cache_dir="prepared")
    save_training_text(data, prepare_data(data), path)
    return path


def test_examples_are_sentences_of_the_text_in_the_directory_without_unknown_words(model, tmp_path):
    text = TextProcessor.load(model)
    assert example_sentences(text, model) == ["a b c d", "a a a a a"]
    assert example_sentences(text, tmp_path / "nowhere") == []
    (model / "training_text.json").write_text("{}")
    with pytest.raises(DataError, match=r"training_text\.json: not the description"):
        example_sentences(text, model)


def test_only_models_with_equal_last_names_get_longer_names(tmp_path):
    paths = [save_model(tmp_path / name) for name in ("a/model", "b/model", "other")]
    assert [one.name for one in load_engines(paths, "cpu")] == ["a/model", "b/model", "other"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"text": "a", "texts": ["b"]}', "give either text or texts, not both"),
        ('{"text": "a", "size": 1}', "size: extra inputs are not permitted"),
        ('{"text": "a", "fertilities": [{"upper": 1}]}', "fertilities[0].word: field required"),
    ],
)
def test_errors_name_the_field_and_the_expectation(engines, body, message):
    async def work(one):
        return await one.post("/translate", content=body, headers={"content-type": "application/json"})

    answer = ask(engines, work)
    assert (answer.status_code, answer.json()) == (422, {"error": message})


def test_beam_size_of_a_model_is_limited_by_the_server(tmp_path, caplog):
    directory = save_model(tmp_path / "wide")
    config = directory / "config.toml"
    config.write_text(
        config.read_text()
        .replace("beam_size = 3\n", "beam_size = 300\n")
        .replace("num_return = 1\n", "num_return = 200\n")
    )
    (engine,) = load_engines([directory], "cpu", config=ServeConfig(max_beam_size=4))
    search = engine.translator.search
    assert (search.beam_size, search.num_return, engine.properties["beam_size"]) == (4, 4, 4)
    assert "requests beam 300 and 200 translations; reduced to the server's maximum of 4" in caplog.text
    (engine,) = load_engines([directory], "cpu", config=ServeConfig(max_beam_size=300))
    assert engine.translator.search.beam_size == 300
