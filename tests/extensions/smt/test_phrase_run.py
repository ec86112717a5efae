"""A phrase-based system from its config file to its translations, as a user runs it."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command_runs import run
from toy_table import lookup

import regard
from regard.config import from_dict
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.extensions.serve.engine import ScoreSettings, SearchSettings, SentenceJob, load_engines
from regard.extensions.serve.schemas import SentencePair
from regard.extensions.smt.model import PhraseConfig, load_phrases
from regard.extensions.smt.phrase_table import PhraseTable
from regard.text.vocabulary import UNK
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig

SETTINGS = """
seed = 1
[data]
cache_dir = "{folder}/prepared"
train = [{{ source = "{folder}/train.de", target = "{folder}/train.en" }}]
valid = {{ source = "{folder}/valid.de", target = "{folder}/valid.en" }}
[model]
kind = "phrase"
aligner = {{ kind = "ibm1" }}
max_phrase_length = 4
lm_order = 3
stack_size = 20
tuning = {{ num_rounds = 1, nbest_size = 20, num_restarts = 0 }}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("phrases")
    write_splits(directory, {"train": 400, "valid": 30, "test": 30}, seed=1)
    (directory / "run.toml").write_text(SETTINGS.format(folder=directory))
    trained = run("train", directory / "run.toml", "num_threads=1", "--output-dir", directory / "model")
    assert "Best validation BLEU" in trained.output
    return directory


def test_trained_system_produces_most_reference_words(directory: Path) -> None:
    run("translate", directory / "model", "--input", directory / "test.de", "--output", directory / "out.en")
    texts = ((directory / name).read_text().splitlines() for name in ("out.en", "test.en"))
    output, wanted = ([set(line.split()) for line in lines] for lines in texts)
    assert len(output) == len(wanted) == 30
    found = sum(len(one & other) for one, other in zip(output, wanted, strict=True))
    assert found > 0.5 * sum(map(len, wanted))


def trained_table(directory: Path, weights: list[float], **data: object) -> PhraseTable:
    """Return the phrase table of a run on the same corpus, listed once per sampling weight."""
    settings = tomllib.loads(SETTINGS.format(folder=directory.parent))
    corpora = [{**settings["data"]["train"][0], "sampling_weight": weight} for weight in weights]
    settings["data"] |= {"cache_dir": str(directory / "prepared"), "train": corpora, **data}
    config = from_dict(RunConfig, settings | {"num_threads": 1})
    train(config, directory)
    assert isinstance(config.model, PhraseConfig)
    return load_phrases(directory, config.model, TextProcessor.load(directory)).table


def test_corpus_weight_multiplies_counts_and_changed_data_is_detected(tmp_path: Path) -> None:
    write_splits(tmp_path, {"train": 60, "valid": 10, "test": 1}, seed=1)
    twice, weighted = trained_table(tmp_path / "a", [1.0, 1.0]), trained_table(tmp_path / "b", [2.0])
    once = trained_table(tmp_path / "c", [1.0])
    assert np.array_equal(twice.scores, weighted.scores) and np.array_equal(twice.targets, weighted.targets)
    assert not np.array_equal(once.scores, weighted.scores)
    write_splits(tmp_path, {"train": 70, "valid": 10, "test": 1}, seed=2)
    with pytest.raises(CheckpointError, match="training data has changed"):
        trained_table(tmp_path / "c", [1.0])


def test_phrases_contain_only_vocabulary_words(tmp_path: Path) -> None:
    write_splits(tmp_path, {"train": 60, "valid": 10, "test": 1}, seed=1)
    table = trained_table(tmp_path / "a", [1.0], min_frequency=3)
    assert len(table) and not (table.target_words == UNK).any()
    assert len(lookup(table, [UNK])) == 0


def test_attention_equals_normalized_links(directory: Path) -> None:
    links, maps = directory / "links", directory / "maps"
    source = (directory / "test.de").read_text().splitlines()[:5]
    lines = "".join(f"{line}\n" for line in [*source, "", "Unbekanntes"])
    options = ("--links-output", links, "--attention-output", maps, "--num-threads", 1)
    shown = run("translate", directory / "model", *options, input=lines).stdout.splitlines()
    assert shown[5:] == ["", "Unbekanntes"]  # an unknown word is copied
    assert links.read_text().splitlines()[5:] == ["", "0-0"]
    entries = [json.loads(line) for line in maps.read_text().splitlines()]
    for entry in (entry for entry in entries if entry["posterior_attention"]):
        (layer,) = np.array(entry["posterior_attention"])
        assert layer.shape == (len(entry["tokens"]) + 1, 1, len(entry["source_tokens"]))
        assert set(layer.sum(axis=2).round(6).ravel()) <= {0, 1}


def test_finished_run_is_reused_and_another_config_is_rejected(directory: Path) -> None:
    again = run("train", directory / "run.toml", "num_threads=1", "--output-dir", directory / "model")
    assert "an earlier run had finished" in again.output
    with pytest.raises(ConfigError, match=r"model\.lm_order"):
        run("train", directory / "run.toml", "model.lm_order=2", "--output-dir", directory / "model")


def test_interrupted_run_starts_again_with_the_same_result(
    directory: Path, tmp_path: Path, monkeypatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("regard.extensions.smt.training.tune_weights", stop)
        config = from_dict(RunConfig, tomllib.loads((directory / "run.toml").read_text()))
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "model")
    run("train", directory / "run.toml", "--output-dir", tmp_path / "model")
    again, first = (
        {path.name: path.read_bytes() for path in (model / "phrase").iterdir()}
        for model in (tmp_path / "model", directory / "model")
    )
    assert again == first


def test_python_api_equals_command_line(directory: Path) -> None:
    lines = (directory / "test.de").read_text().splitlines()[:4]
    output = run("translate", directory / "model", "--num-threads", 1, input="\n".join(lines) + "\n").stdout
    model = regard.load(directory / "model")
    assert [model.translate(line).text for line in lines] == output.splitlines()
    results = model.translate(lines, num_return=3)
    assert [result.text for result in results] == output.splitlines()
    assert all(1 <= len(result.nbest) <= 3 for result in results)
    assert "<svg" in results[0].plot().svg


def test_neural_options_are_rejected(directory: Path) -> None:
    for option in ("--mbr chrf", f"--required-terms {directory / 'test.de'}"):
        with pytest.raises(
            UsageError, match=r"not supported by .*model \(phrase\), which supports attention"
        ):
            run("translate", directory / "model", *option.split(), input="a\n")
    with pytest.raises(UsageError, match="regard score: not supported by "):
        run("score", directory / "model", directory / "test.de", directory / "test.en")
    with pytest.raises(UsageError, match="an ensemble of several models: not supported by"):
        regard.load(directory / "model", directory / "model")
    with pytest.raises(UsageError, match=r"overrides of the configuration \(--set\): not supported by"):
        regard.load(directory / "model", overrides=["model.attention.top_k=0"])


def test_server_translates_with_a_phrase_based_model(directory: Path) -> None:
    (engine,) = load_engines([directory / "model"])
    line = (directory / "test.de").read_text().splitlines()[0]
    (answer,) = engine.process_batch(SearchSettings(num_return=2), [SentenceJob(line)])
    assert isinstance(answer, dict)
    assert answer["text"] == regard.load(directory / "model").translate(line).text
    assert answer["word_attention_map"] and answer["alignment"]
    (score,) = engine.process_batch(ScoreSettings(), [SentencePair(source=line, target="a dog")])
    assert isinstance(score, UsageError)


def test_tables_are_not_loaded_with_another_config(directory: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(directory / "model", tmp_path / "model"))
    config = copy / "config.toml"
    config.write_text(config.read_text().replace("max_phrase_length = 4", "max_phrase_length = 3"))
    with pytest.raises(CheckpointError, match=r"config\.toml: the checksum differs .*phrase was trained"):
        regard.load(copy)
