"""Pre-training: masking, the training run, and loading the result with transformers."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers

from regard.config import from_dict
from regard.errors import ConfigError, TrainingDivergedError
from regard.extensions.hf.language_model import mask_tokens, num_masked
from regard.extensions.hf.pretraining import PretrainConfig, pretrain
from regard.runs.serialization import read_tensors
from regard.runs.weights import MODEL_FILE


def settings(directory: Path, kind: str, max_steps: int) -> PretrainConfig:
    """Return the settings of a small pre-training run; write its text first, if necessary."""
    text = directory / "text"
    if not text.exists():
        text.write_text("\n".join(" ".join(pair) for pair in itertools.permutations(tiny.TEXT, 2)) + "\n")
    sizes = {"num_layers": 2, "d_model": 16, "num_heads": 2, "ffn_size": 24}
    return from_dict(
        PretrainConfig,
        {
            "device": "cpu",
            "text": {"train": [str(text)], "valid": str(text), "max_length": 40, "vocab_size": 300},
            "model": {"kind": kind, **sizes},
            "training": {
                "batch_size": 10,
                "optimizer": {"learning_rate": 0.01},
                "lr_scheduler": {"kind": "constant"},
                "max_steps": max_steps,
                "logging": {"every_steps": 1},
            },
        },
    )


def test_masking_uses_80_percent_mask_10_random_10_unchanged() -> None:
    random, mask, others = np.random.default_rng(1), 4, np.arange(5, 100_000)
    counts = np.zeros(3)
    total = 0
    for length in (1, 2, 9, 40) * 500:
        ids = np.full(length, 7)
        read, places = mask_tokens(ids, random, mask, others)
        assert len(places) == num_masked(length) == max(1, round(0.15 * length))
        assert (np.delete(read, places) == 7).all() and (ids == 7).all()
        found = read[places]
        counts += [(found == mask).sum(), ((found != mask) & (found != 7)).sum(), (found == 7).sum()]
        total += len(places)
    for count, share in zip(counts, (0.8, 0.1, 0.1), strict=True):
        assert abs(count / total - share) < 4 * (share * (1 - share) / total) ** 0.5


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_pretrained_directory_loads_in_transformers(kind: str, tmp_path: Path) -> None:
    result = pretrain(settings(tmp_path, kind, 40), tmp_path / "out")
    auto = transformers.AutoModelForMaskedLM if kind == "masked" else transformers.AutoModelForCausalLM
    model = auto.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert result.progress.best_score is not None and result.progress.best_score < 0.5 * len(tokenizer)
    inputs = tokenizer(tiny.TEXT[0], return_tensors="pt")
    assert model(**inputs).logits.shape[-1] == len(tokenizer)
    if kind == "causal":
        # The loss of transformers on the text, including the ends of lines, equals the best loss of the run.
        total = tokens = 0
        for line in (tmp_path / "text").read_text().splitlines():
            ids = [tokenizer.bos_token_id, *tokenizer(line)["input_ids"], tokenizer.eos_token_id]
            with torch.no_grad():
                loss = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss
            total, tokens = total + float(loss) * (len(ids) - 1), tokens + len(ids) - 1
        assert np.exp(total / tokens) == pytest.approx(result.progress.best_score, rel=1e-4)


def test_interrupted_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    pretrain(settings(tmp_path, "masked", 12), tmp_path / "once")
    pretrain(settings(tmp_path, "masked", 5), tmp_path / "twice")
    pretrain(settings(tmp_path, "masked", 12), tmp_path / "twice")
    states = [tmp_path / name / "run/training/state.safetensors" for name in ("once", "twice")]
    once, twice = (read_tensors(state)[0] for state in states)
    assert once.keys() == twice.keys() and all(torch.equal(once[name], twice[name]) for name in once)
    assert (tmp_path / "once" / MODEL_FILE).is_file()


def test_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    pretrain(settings(tmp_path, "causal", 1), tmp_path / "other")
    with pytest.raises(ConfigError, match="another config"):
        pretrain(settings(tmp_path, "masked", 1), tmp_path / "other")


def test_diverged_run_writes_no_model_directory(tmp_path: Path) -> None:
    config = settings(tmp_path, "causal", 3)
    optimizer = dataclasses.replace(config.training.optimizer, learning_rate=1e38)
    config = dataclasses.replace(config, training=dataclasses.replace(config.training, optimizer=optimizer))
    with pytest.raises(TrainingDivergedError, match="after step 3"):
        pretrain(config, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run"]
    assert not (tmp_path / "out" / "run" / MODEL_FILE).exists()
