"""Constrained cross-attention in a fine-tuned Marian-type model, with user-specified bounds on the server."""

# pyright: basic

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'regard[serve]'")

from test_training import run_config
from tiny import ModelDir

import regard
from extensions.serve.served import ask
from regard.config import from_dict, to_dict
from regard.extensions.hf.seq2seq import HfSeq2Seq
from regard.extensions.serve.engine import load_engines
from regard.training.run import run_training
from regard.training.run_config import RunConfig

LINE = "die Katze schläft auf dem Sofa ."
FERTILITY = 1.5


@pytest.fixture(scope="module")
def run_dir(model_dir: ModelDir, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a Marian-type model with softmax, and fine-tune it with budgets for its source tokens."""
    directory = tmp_path_factory.mktemp("budgets")
    path = str(model_dir("marian"))
    soft = run_config(directory, {"kind": "hf", "path": path}, 12)
    run_training(soft, directory / "softmax")
    attention = {"kind": "constrained", "normalizer": "sparsemax"}
    plain = to_dict(run_config(directory, {"kind": "hf", "path": path, "attention": attention}, 6))
    plain["data"]["fertility"] = {"kind": "constant", "value": FERTILITY}
    plain["data"]["cache_dir"] = str(directory / "bounded")
    plain["training"]["init_from"] = str(directory / "softmax")
    run_training(from_dict(RunConfig, plain), directory / "constrained")
    return directory / "constrained"


def test_source_tokens_receive_at_most_their_fertility(run_dir: Path) -> None:
    model = regard.load(run_dir, device="cpu")
    assert isinstance(model.backend.model, HfSeq2Seq)
    found = model.translate(LINE, beam_size=3)
    words = np.asarray(found.source_word_ids) >= 0  # the others are symbols of the tokenizer, the sink
    assert 0 < words.sum() < len(words) and len(found.attention) == 2
    for weights in found.attention:  # (T + 1, H, S)
        assert weights.sum(0)[:, words].max() <= FERTILITY + 1e-4
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
        assert (weights == 0).any()


def test_bounds_on_the_served_page_hold_as_for_other_models(run_dir: Path) -> None:
    ids = np.asarray(regard.load(run_dir, device="cpu").translate(LINE, beam_size=1).source_word_ids)
    sizes = [int((ids == word).sum()) for word in range(7)]  # number of subword tokens of each word
    engines = load_engines([run_dir], "cpu")

    async def work(one):
        described = (await one.get("/models")).json()
        answers = []
        for fertilities in ([], [{"word": 1, "upper": 0}], [{"word": 1, "lower": 0.6}]):
            body = {"text": LINE, "split": False, "beam_size": 3, "fertilities": fertilities}
            response = await one.post("/translate", json=body)
            assert response.status_code == 200, response.text
            answers.append(response.json()["sentences"][0])
        return described, answers

    described, (free, never, least) = ask(engines, work)
    assert "constant" in str(described)  # the page shows the handles of models with fertilities
    assert free["fertility_bounds"] == [{"lower": 0, "upper": FERTILITY * size} for size in sizes]
    assert free["received_attention"][1] > 0
    assert never["fertility_bounds"][1] == {"lower": 0, "upper": 0}
    assert never["received_attention"][1] == 0 and all(row[1] == 0 for row in never["word_attention_map"])
    assert least["fertility_bounds"][1]["lower"] == pytest.approx(0.6 * sizes[1])
    assert least["received_attention"][1] >= 0.1 * sizes[1] - 1e-3
