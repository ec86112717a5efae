"""Decoder-only models in the commands: reports, checks, the server, and fine-tuning."""

# pyright: basic

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import causal_models
import tiny
import torch
import transformers
from command_runs import run, translate

import regard
from regard.errors import ConfigError
from regard.runs.weights import load_weights
from regard.training.run import run_training
from regard.training.run_config import RunConfig

PAIRS = [(0, 2), (1, 3), (4, 5)]
"""Lines of `tiny.TEXT` that translate each other."""


@pytest.fixture(scope="module")
def gpt2(causal_dir: tiny.ModelDir) -> Path:
    """Return the directory of a small model like GPT-2."""
    return causal_dir("gpt2")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a source and a target file."""
    made = tmp_path_factory.mktemp("text")
    for side, name in enumerate(("de", "en")):
        (made / name).write_text("".join(f"{tiny.TEXT[pair[side]]}\n" for pair in PAIRS))
    return made / "de", made / "en"


def run_config(directory: Path, texts: tuple[Path, Path], steps: int, **model: Any) -> RunConfig:
    """Return the config of a run that fine-tunes the model; the prompt is given once."""
    tokenizer = {"kind": "prompt", "path": str(directory), "template": "{source_language}: {source}\n"}
    tokenizers = {"source_tokenizer": tokenizer | causal_models.LANGUAGES}
    model = {"kind": "causal", "path": str(directory), **model}
    return tiny.run_config(texts, model, tokenizers, 0.02, max_steps=steps)


def test_commands_show_the_attention_of_a_decoder_only_model(
    gpt2: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    links = tmp_path / "links"
    runtime = ("--beam-size", 2, "--layer", 0, "--head", 1, "--device", "cpu")
    out = translate(gpt2, "--input", texts[0], "--links-output", links, *runtime)
    model = regard.load(gpt2, device="cpu", layer=0, head=1)
    found = model.translate(texts[0], beam_size=2)
    assert out == [one.text for one in found]
    written = [line.split() for line in links.read_text().splitlines()]
    assert written == [[f"{i}-{j}" for i, j in one.alignment.tolist()] for one in found]
    lines = texts[0].read_text().splitlines()
    assert [one.source_words for one in found] == [tuple(line.split()) for line in lines]
    page = tmp_path / "page.html"
    run("report", gpt2, "--test", *texts, "--output", page, "--device", "cpu")
    # The maps of the page have one column per source word, and one for template and translation.
    columns = json.dumps([*lines[1].split(), "<sink>"], ensure_ascii=False, separators=(",", ":"))
    assert columns.replace("<", r"\u003c").replace(">", r"\u003e") in page.read_text()
    given = ("--source", texts[0], "--reference", texts[1])
    run("analyze", "attention", gpt2, *given, "--json", tmp_path / "a.json")
    shown = json.loads((tmp_path / "a.json").read_text())
    assert shown["schema"] and gpt2.name in json.dumps(shown)


def test_fine_tuned_model_translates_without_the_original_directory(
    gpt2: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(gpt2, tmp_path / "base"))
    run_training(run_config(directory, texts, 150), tmp_path / "run")
    shutil.rmtree(directory)
    model = regard.load(tmp_path / "run", device="cpu")
    found = model.translate(texts[0], beam_size=2)
    # The model has learned these three sentences by heart.
    assert [one.text for one in found] == texts[1].read_text().splitlines()
    # The template of the config takes precedence over the file of the directory.
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    assert tokenizer.decode(model.text.source.tokenizer.prefix_ids) == "German:"


def test_only_the_target_is_trained(gpt2: Path, texts: tuple[Path, Path]) -> None:
    from regard.text.vocabulary import EOS

    model = regard.load(gpt2, device="cpu")
    text, own = model.text, model.backend.model
    sources, targets = ([text.source.encode(tiny.TEXT[i])] for i in PAIRS[1])
    targets = [[*text.target.encode(tiny.TEXT[PAIRS[1][1]]), EOS]]
    loss = -own(text.batch(sources, targets, [0]), output_attentions="nothing").log_likelihood.sum()
    (gradient,) = torch.autograd.grad(loss, own.model.transformer.wte.weight)
    library, ids = transformers.GPT2LMHeadModel.from_pretrained(gpt2).eval(), text.source.tokenizer
    prompt = [*ids.prefix_ids, *(ids.library_ids[i] for i in sources[0]), *ids.suffix_ids]
    answer = [ids.library_ids[i] for i in targets[0]]
    labels = torch.tensor([[*[-100] * len(prompt), *answer]])
    wanted = library(input_ids=torch.tensor([[*prompt, *answer]]), labels=labels).loss * len(answer)
    (theirs,) = torch.autograd.grad(wanted, library.transformer.wte.weight)
    torch.testing.assert_close(gradient, theirs, atol=1e-5, rtol=1e-4)


def test_low_rank_adaptation_leaves_the_weights_fixed(
    gpt2: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("peft", reason="needs peft: pip install peft")
    from safetensors.torch import load_file

    run_training(run_config(gpt2, texts, 30, lora={"rank": 4, "alpha": 8}), tmp_path / "run")
    weights, before = load_weights(tmp_path / "run"), load_file(gpt2 / "model.safetensors")
    old = {name.removeprefix("model.").replace(".base_layer", ""): x for name, x in weights.items()}
    added = {name for name in old if "lora_" in name}
    assert added and all(torch.equal(value, old[name]) for name, value in before.items())
    line, target = tiny.TEXT[1], tiny.TEXT[3]
    template = ["data.source_tokenizer.template={source_language}: {source}\n"]
    base = regard.load(gpt2, device="cpu", overrides=template).score(line, target)
    tuned = regard.load(tmp_path / "run", device="cpu").score(line, target)
    assert tuned.log_probability > base.log_probability + 5
    with pytest.raises(ConfigError, match=r"model.lora: peft cannot adapt .*target_modules"):
        run_training(run_config(gpt2, texts, 1, lora={"target_modules": ["none"]}), tmp_path / "other")


def test_unsuitable_data_are_named_before_training(
    gpt2: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    long = (tmp_path / "de", tmp_path / "en")
    for path, word in zip(long, ("Hund ", "dog "), strict=True):
        path.write_text(f"{word}\n{word * 20}\n")
    with pytest.raises(ConfigError, match=r"line 2.* source and target tokens.*max_length"):
        run_training(run_config(gpt2, long, 1), tmp_path / "run")
    config = tiny.run_config(texts, {"kind": "causal", "path": str(gpt2)}, {}, 0.02)
    with pytest.raises(ConfigError, match=r"needs the tokenizer of the model.*kind = 'prompt'"):
        run_training(config, tmp_path / "run")
