"""Constrained cross-attention in a fine-tuned Marian-type model."""

# pyright: basic

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

from test_training import run_config
from tiny import ModelDir

import regard
from regard.config import from_dict, to_dict
from regard.extensions.hf.seq2seq import HfSeq2Seq
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
