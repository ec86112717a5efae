"""A directory with the files and tiny models that the pages of the documentation name."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import doc_blocks
import pytest
import tiny
from typer.testing import CliRunner

from quick_coverage import train_quickly
from regard.cli.main import app
from regard.extensions.phrasebook.corpus import write_splits

SOFT = """
[data]
train = [{ source = "train.de", target = "train.en" }]
valid = { source = "valid.de", target = "valid.en" }
source_tokenizer = { kind = "words" }
target_tokenizer = { kind = "words" }
[model]
embedding_size = 8
encoder = { hidden_size = 8, num_layers = 1 }
decoder = { hidden_size = 8, num_layers = 1 }
[training]
max_steps = 2
batch_size = 8
batch_unit = "sentences"
validation = { every_steps = 2 }
[generation]
max_length_ratio = 1.0
max_length_offset = 2
"""
PHRASE = 'kind = "phrase", tuning = { num_rounds = 1, nbest_size = 5, num_restarts = 1 }'
TRANSFORMER = 'kind = "transformer", d_model = 8, num_heads = 2, feed_forward = { ffn_size = 8 }'
NOUNS = {name: f'{{ file = "{name}.tsv", columns = [1, 2, 3] }}' for name in ("nouns", "dev")}
RUNS = {
    "soft": [],
    "sparse": ["model.attention.normalizer=sparsemax"],
    "constrained": [
        'data.fertility={ kind = "guided" }',
        'model.attention={ kind = "constrained", normalizer = "sparsemax" }',
    ],
    "posterior": [
        "model.decoder.input_feeding=context", "model.decoder.output_layer=linear",
        "model.attention.kind=posterior",
    ],
    "hard": ["model.attention.kind=hard", "training.init_from=runs/soft"],
    "transformer": [f"model={{ {TRANSFORMER}, encoder.num_layers = 1, decoder.num_layers = 1 }}"],
    "multi30k-phrase": [f"model={{ {PHRASE} }}"],
    "nouns": [
        f"data.train=[{NOUNS['nouns']}]", f"data.valid={NOUNS['dev']}",
        "data.source_tokenizer.kind=inflection", "data.target_tokenizer.kind=characters",
    ],
}  # fmt: skip
"""The models: the settings in which they differ from soft attention."""

COPIES = {
    "soft": ["MODEL", "MODEL2", "runs/first", "runs/second", "tour/models/soft", "stranger/model"],
    "sparse": ["tour/models/sparse"],
    "constrained": ["runs/bounded", "tour/models/constrained", "quickstart/models/constrained"],
}
"""Other names of the models."""

TEXTS = {
    "test.de": "in.txt input.txt source.txt text.de",
    "test.en": "out.en system.en other-system.en other.txt baseline.en target.txt translation.txt",
}


def build_world(directory: Path) -> None:
    """Write the files and train the models."""
    for corpus in (".", "corpus", "quickstart/corpus", "tour/corpus"):
        (directory / corpus).mkdir(parents=True)
        write_splits(directory / corpus, {"train": 120, "valid": 6, "test": 6}, seed=1)
    for name, copies in TEXTS.items():
        for copy in copies.split():
            shutil.copy(directory / name, directory / copy)
    _write_small_files(directory)
    tiny.marian(directory / "opus-mt-de-en")
    for name in ("run", "first"):
        (directory / f"{name}.toml").write_text(SOFT)
    for name, overrides in RUNS.items():
        _train(directory, name, overrides)
    (directory / "recipes").mkdir()
    shutil.move(directory / "multi30k-phrase.toml", directory / "recipes")
    run(directory, "align", "train.de", "train.en", "--save-aligner", "aligner", "-o", "train.links")
    text = ["test.de", "test.en", "--train", "train.de", "train.en"]
    with pytest.MonkeyPatch.context() as patch:
        train_quickly(patch)
        run(directory, "check", *text, "--save-checker", "checker")
    shutil.copytree(directory / "checker", directory / "checkers" / "de-en")
    # Otherwise each report of a page would train its own.
    for config in list(directory.rglob("config.toml")):
        for part in ("aligner", "checker"):
            shutil.copytree(directory / part, config.parent / part, dirs_exist_ok=True)


def run(directory: Path, *arguments: str) -> str:
    """Run a command of regard in this process, in a directory, and return its output."""
    with chdir(directory):
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def _train(directory: Path, name: str, overrides: list[str]) -> None:
    """Write the file of a run and train its model."""
    places = [f"output_dir=runs/{name}", f"data.cache_dir=prepared/{name}"]
    (directory / f"{name}.toml").write_text(run(directory, "config", "run.toml", *places, *overrides))
    run(directory, "train", f"{name}.toml")
    for copy in COPIES.get(name, ()):
        shutil.copytree(directory / "runs" / name, directory / copy)


def _write_small_files(directory: Path) -> None:
    lines = len((directory / "test.de").read_text(encoding="utf-8").splitlines())
    words = (directory / "train.en").read_text(encoding="utf-8").split()
    (directory / "terms.txt").write_text(f"{words[0]}\n" + "\n" * (lines - 1))
    shutil.copy(directory / "test.talp", directory / "out.links")
    labeled = [{"line": line, "omission": bool(line % 2)} for line in range(1, lines + 1)]
    (directory / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labeled))
    forms = "".join(f"{stem}\tcase=nom,number=plural\t{stem}e\n" for stem in ("Tag", "Weg", "Tisch", "Brief"))
    for name in ("nouns.tsv", "dev.tsv", "test.tsv"):
        (directory / name).write_text(forms, encoding="utf-8")
    unit = "<unit id='u'><segment><source>Ein Hund .</source><target>A dog a dog .</target></segment></unit>"
    (directory / "job.xlf").write_text(f"<xliff version='2.0' srcLang='de' trgLang='en'>{unit}</xliff>")
    extend = doc_blocks.blocks(doc_blocks.ROOT / "docs" / "extend.md")
    plugin = next(block.code for block in extend if block.language == "python")
    (directory / "topk.py").write_text(plugin)
