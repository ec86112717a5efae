"""Models and checkers by name, from a local stand-in of the Hugging Face Hub, to which they are uploaded."""

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tiny
import yaml
from command_runs import invoke
from hub_server import TOKEN, Hub

import regard
from quick_coverage import phrasebook_model
from regard.api.systems import name_models
from regard.errors import CheckpointError, DataError, UsageError
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from saved_models import save_model

constants = pytest.importorskip("huggingface_hub").constants
# A warning of its client.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Serve an empty hub to a client that is logged in and has an empty cache."""
    Hub.repositories.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        settings = {"ENDPOINT": endpoint, "HUGGINGFACE_CO_URL_TEMPLATE": template}
        settings |= {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": ""}
        for name, value in settings.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.chdir(tmp_path)
        yield monkeypatch
        server.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a bounded model with the state, the log and the text of a training."""
    directory = save_model(tmp_path / "run", fertility=2.0)
    others = "training/state.safetensors", "training_pairs.source.gz", "train.txt", ".env", "hf_token.json"
    for name in others:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("text")
    (directory / "record.jsonl").write_text(json.dumps({"kind": "validation", "best": True, "bleu": 31.25}))
    return directory


def test_an_uploaded_model_is_used_by_its_name(hub: Any, run: Path) -> None:
    expected = regard.load(run).translate("a b c").text
    uploaded = invoke("upload", run, "org/first")
    assert uploaded.exit_code == 0, uploaded.output
    others = [".env", "hf_token.json", "record.jsonl", "train.txt", "training", "training_pairs.source.gz"]
    assert f"not uploaded, because they are not part of the model: {', '.join(others)}\n" in uploaded.stderr
    (files,) = Hub.repositories["org/first"]["main"]
    assert files.keys() == {path.name for path in run.iterdir()} - {*others}
    Path("in.txt").write_text("a b c\n")
    done = invoke("translate", "org/first", "--input", "in.txt")
    assert (done.stdout, done.exit_code) == (f"{expected}\n", 0)
    assert list(name_models(["org/first", run])) == ["first", "run"]


def test_the_card_has_the_data_and_figures_of_the_model_and_stays(hub: Any, run: Path) -> None:
    assert regard.upload(run, "org/first", languages=("de", "en"), dry_run=True) == ""
    assert not Hub.repositories
    card = (run / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---")[1])
    assert (metadata["language"], metadata["license"]) == (["de", "en"], "unknown")
    assert (metadata["library_name"], metadata["metrics"]) == ("regard", ["bleu"])
    assert "| bleu | 31.25 |" in card and "| kind | rnn |" in card and str(run.parent) not in card
    (run / "README.md").write_text(card.replace("unknown", "mit"))
    regard.upload(run, "org/first")
    assert b"license: mit" in Hub.repositories["org/first"]["main"][0]["README.md"]
    (run / "README.md").write_text("# A model\n")
    with pytest.raises(DataError, match=r"README\.md: the metadata at its start, between lines ---, have no"):
        regard.upload(run, "org/first")


def test_a_checker_is_used_by_its_name(hub: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = Path(shutil.copytree(phrasebook_model(tmp_path_factory), "checker"))
    (directory / "words" / "notes").touch()
    messages: list[str] = []
    regard.upload(directory, "org/checker", on_message=messages.append)
    assert "not uploaded, because they are not part of the model: words/notes" in messages
    pairs = ["ein Hund läuft ."], ["a dog runs in the garden ."]
    result = regard.check(*pairs, checker="org/checker")
    assert result.to_dict() == regard.check(*pairs, checker=directory).to_dict()


def test_revisions_and_the_cache_are_used_without_a_connection(hub: Any, tmp_path: Path) -> None:
    weights = []
    for number, branch in enumerate((None, "v2")):
        regard.upload(save_model(tmp_path / "run", number), "org/first", revision=branch)
        weights.append((tmp_path / "run" / "model.safetensors").read_bytes())
    for offline in (False, True):
        hub.setattr(constants, "HF_HUB_OFFLINE", offline)
        loaded = [regard.load(name).directories[0] for name in ("org/first", "org/first@v2")]
        assert [(place / "model.safetensors").read_bytes() for place in loaded] == weights
    with pytest.raises(CheckpointError, match="org/other: no such path, and the Hugging Face Hub cannot be"):
        regard.load("org/other")


def test_hugging_face_models_are_downloaded_without_pickles_and_code(hub: Any, tmp_path: Path) -> None:
    tiny.marian(tmp_path / "marian")
    files = {path.name: path.read_bytes() for path in (tmp_path / "marian").iterdir()}
    others = dict.fromkeys(("pytorch_model.bin", "modeling.py", "onnx/model.safetensors"), b"code")
    Hub.repositories["org/opus"] = {"main": [files | others]}
    directory = regard.load("org/opus").directories[0]
    assert {path.name for path in directory.iterdir()} == files.keys()
    assert PretrainedTokenizer.create(PretrainedTokenizerConfig(path="org/opus"), (), "source")
    del files["model.safetensors"]
    Hub.repositories["org/pickled"] = {"main": [files | others]}
    with pytest.raises(CheckpointError, match=r"contains no weights .* the latter is never downloaded"):
        regard.load("org/pickled")


def test_each_error_is_one_message(hub: Any, run: Path, tmp_path: Path) -> None:
    regard.upload(run, "org/first")
    for name, reason in {"org/none": "model, or you must log in", "org/first@v9": "revision"}.items():
        message = f"{name}: no such path, and the Hugging Face Hub has no such {reason}"
        with pytest.raises(CheckpointError, match=message):
            regard.load(name)
    with pytest.raises(UsageError, match="org/first: is public on the Hub already"):
        regard.upload(run, "org/first", private=True)
    with pytest.raises(UsageError, match="no/such/name: expected a name on the Hub"):
        regard.upload(run, "no/such/name")
    tiny.marian(tmp_path / "marian")
    (tmp_path / "marian" / "model.safetensors").rename(tmp_path / "marian" / "weights.bin")
    with pytest.raises(CheckpointError, match="marian: contains no weights"):
        regard.upload(tmp_path / "marian", "org/pickled")
    hub.setenv("HF_TOKEN", "wrong")
    with pytest.raises(CheckpointError, match="org/second: the Hugging Face Hub"):
        regard.upload(run, "org/second")
    (tmp_path / "runs").mkdir()
    with pytest.raises(CheckpointError, match="runs/first: no such model directory"):
        regard.load("runs/first")
    hub.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"org/first: no such path.*pip install 'regard\[hub\]'"):
        regard.load("org/first")
