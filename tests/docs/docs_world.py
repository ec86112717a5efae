"""A directory with the files and tiny models that the pages of the documentation name."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import doc_blocks

from regard.extensions.phrasebook.corpus import write_splits
from warm_python import warm_python

__all__ = ["build_world"]

TINY = """
seed = 1
[data]
cache_dir = "{cache}"
train = [{{ source = "{corpus}/train.de", target = "{corpus}/train.en" }}]
valid = {{ source = "{corpus}/valid.de", target = "{corpus}/valid.en" }}
source_tokenizer = {{ kind = "words" }}
target_tokenizer = {{ kind = "words" }}
{data}
[model]
{model}
[training]
max_steps = 2
batch_size = 8
batch_unit = "sentences"
validation = {{ every_steps = 2 }}
[generation]
max_length_ratio = 1.0
max_length_offset = 2
"""
RNN = "embedding_size = 8\nencoder = { hidden_size = 8, num_layers = 1 }\n"
RECURRENT = RNN + "decoder = { hidden_size = 8, num_layers = 1 }\n"
TRANSFORMER = (
    'kind = "transformer"\nd_model = 8\nnum_heads = 2\nfeed_forward = { ffn_size = 8 }\n'
    "encoder = { num_layers = 1 }\ndecoder = { num_layers = 1 }\n"
)
POSTERIOR = (
    'decoder = { hidden_size = 8, num_layers = 1, input_feeding = "context", output_layer = "linear" }\n'
)
POSTERIOR_ATTENTION = 'attention = { kind = "posterior" }'
BOUNDED = RECURRENT + 'attention = { kind = "constrained", normalizer = "sparsemax" }'
RUNS = {
    "soft": ("", RECURRENT),
    "sparse": ("", RECURRENT + 'attention = { kind = "soft", normalizer = "sparsemax" }'),
    "constrained": (
        'fertility = { kind = "guided" }', BOUNDED,
    ),
    "posterior": ("", RNN + POSTERIOR + POSTERIOR_ATTENTION),
    "hard": ("", RECURRENT + 'attention = { kind = "hard" }'),
    "transformer": ("", TRANSFORMER),
}  # fmt: skip
"""The models: the settings of their data and of the model."""

COPIES = {
    "soft": [
        "MODEL", "MODEL2", "runs/first", "runs/second", "quickstart/models/soft", "tour/models/soft",
        "stranger/model",
    ],
    "sparse": ["tour/models/sparse"],
    "constrained": ["runs/bounded", "tour/models/constrained", "quickstart/models/constrained"],
}  # fmt: skip
"""Other names of the models."""

TEXTS = {
    "test.de": "in.txt input.txt source.txt text.de v.de mono.de back.de",
    "test.en": "out.en system.en other-system.en other.txt baseline.en target.txt translation.txt v.en "
    "back.en",
}


def build_world(directory: Path) -> None:
    """Write the files and train the models."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for corpus in (".", "corpus", "quickstart/corpus", "tour/corpus"):
        (directory / corpus).mkdir(parents=True, exist_ok=True)
        write_splits(directory / corpus, {"train": 120, "valid": 6, "test": 6}, seed=1)
    for name, copies in TEXTS.items():
        for copy in copies.split():
            shutil.copy(directory / name, directory / copy)
    _write_small_files(directory)
    _write_parts(directory)
    for name, (data, model) in RUNS.items():
        cache = "prepared/run" if name == "soft" else f"prepared/{name}"
        text = TINY.format(cache=cache, corpus=".", data=data, model=model)
        (directory / f"{name}.toml").write_text(text)
        run(directory, "train", f"{name}.toml")
        for copy in COPIES.get(name, ()):
            shutil.copytree(directory / "runs" / name, directory / copy)
    for copy in ("run.toml", "first.toml"):
        shutil.copy(directory / "soft.toml", directory / copy)
    _train_inflection(directory)
    _train_phrases(directory)
    run(directory, "align", "train.de", "train.en", "--save-aligner", "aligner", "-o", "train.links")
    text = ["test.de", "test.en", "--train", "train.de", "train.en"]
    run(directory, "check", *text, "--save-checker", "checker")
    shutil.copytree(directory / "checker", directory / "checkers" / "de-en")
    # Otherwise each report of a page would train its own.
    for config in list(directory.rglob("config.toml")):
        for part in ("aligner", "checker"):
            shutil.copytree(directory / part, config.parent / part, dirs_exist_ok=True)
    # Removed here, so that a page cannot depend on the order of the pages.
    for name in ("prepared/sparse", "prepared/hard", "prepared/transformer"):
        shutil.rmtree(directory / name, ignore_errors=True)


def run(directory: Path, *arguments: str) -> None:
    """Run a command of regard in a directory."""
    done = subprocess.run(
        [warm_python(), "-m", "regard", *arguments], cwd=directory, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _write_small_files(directory: Path) -> None:
    lines = len((directory / "test.de").read_text(encoding="utf-8").splitlines())
    words = (directory / "train.en").read_text(encoding="utf-8").split()
    (directory / "terms.txt").write_text(f"{words[0]}\n" + "\n" * (lines - 1))
    sources, targets = ((directory / f"valid.{end}").read_text(encoding="utf-8") for end in ("de", "en"))
    pairs = zip(sources.splitlines(), targets.splitlines(), strict=True)
    (directory / "valid.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    shutil.copy(directory / "test.talp", directory / "out.links")
    labeled = [{"line": line, "omission": bool(line % 2)} for line in range(1, lines + 1)]
    (directory / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labeled))


def _write_parts(directory: Path) -> None:
    """Write the plugin of the tutorial, and Hugging Face models."""
    extend = doc_blocks.blocks(doc_blocks.ROOT / "docs" / "extend.md")
    plugin = next(block.code for block in extend if block.language == "python")
    (directory / "topk.py").write_text(plugin)
    path = Path(__file__).parents[1] / "extensions" / "hf" / "tiny.py"
    spec = importlib.util.spec_from_file_location("tiny", path)
    assert spec is not None and spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    tiny.gpt2(directory / "models" / "decoder")
    tiny.marian(directory / "opus-mt-de-en")


def _train_inflection(directory: Path) -> None:
    table = "".join(f"{stem}\tcase=nom,number=plural\t{stem}e\n" for stem in ("Tag", "Weg", "Tisch", "Brief"))
    for name in ("nouns.tsv", "dev.tsv", "test.tsv"):
        (directory / name).write_text(table, encoding="utf-8")
    text = TINY.format(cache="prepared/nouns", corpus=".", data="", model=RECURRENT)
    train, valid = (f'{{ tsv = "{name}", columns = [1, 2, 3] }}' for name in ("nouns.tsv", "dev.tsv"))
    corpora = f"train = [{train}]\nvalid = {valid}"
    lines = [line for line in text.split("\n") if not line.startswith(("train =", "valid ="))]
    lines[lines.index("[data]")] = f"[data]\n{corpora}"
    text = "\n".join(lines).replace("words", "inflection", 1).replace("words", "characters", 1)
    (directory / "nouns.toml").write_text(text)
    run(directory, "train", "nouns.toml")


def _train_phrases(directory: Path) -> None:
    model = 'kind = "phrase"\ntuning = { num_rounds = 1, nbest_size = 5, num_restarts = 1 }'
    text = TINY.format(cache="prepared/phrase", corpus=".", data="", model=model)
    (directory / "recipes").mkdir()
    (directory / "recipes" / "multi30k-phrase.toml").write_text(text)
    run(directory, "train", "recipes/multi30k-phrase.toml", "--output-dir", "runs/multi30k-phrase")
