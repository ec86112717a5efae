"""Plugins: parts of an installed package, of a file and of a notebook, used by every command."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Literal

import pytest
import torch

import regard
from regard.attention.registry import ATTENTION, NORMALIZERS
from regard.attention.scored import ScoredAttention
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, from_dict, plugins
from regard.data import preprocessing
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.errors import CheckpointError, ConfigError, PluginError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.functional import softmax
from regard.metrics.base import METRICS, SentenceCounts
from regard.models import build_model
from regard.models.rnn.config import RnnConfig
from regard.text.tokenizers.base import TOKENIZERS, Tokenizer
from regard.training.losses import LossTerm
from regard.training.run_config import RunConfig, load_config

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin" / "src"
FILE = '''
from typing import Literal

import regard
from regard.attention import ScoredAttention


@regard.configclass
class SharpAttentionConfig:
    """Soft attention with a temperature."""

    kind: Literal["sharp"] = "sharp"
    temperature: float = regard.option(default=0.5, help="Temperature.", gt=0)


@regard.register_attention("sharp")
class SharpAttention(ScoredAttention):
    def __init__(self, config: SharpAttentionConfig, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.temperature = config.temperature

    def normalize(self, scores, mask):
        return regard.functional.softmax(scores / self.temperature, mask=mask)


import regard.functional
'''
CONFIG = """
data.cache_dir = "prepared"
data.train = [{ source = "text/train.de", target = "text/train.en" }]
data.valid = { source = "text/valid.de", target = "text/valid.en" }
model.embedding_size = 8
model.encoder = { num_layers = 1, hidden_size = 8 }
model.decoder = { num_layers = 1, hidden_size = 8 }
training.max_epochs = 1
"""


@configclass
class WarmConfig:
    kind: Literal["warm"] = "warm"


@pytest.fixture(autouse=True)
def _restored(monkeypatch) -> None:
    """Undo the registrations of a test in this process."""
    for registry in (ATTENTION, METRICS, NORMALIZERS, TOKENIZERS):
        registry.names()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(plugins, "_loaded", {})


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """Return a directory with text, a config without an attention mechanism, and a plugin file."""
    directory = tmp_path_factory.mktemp("plugins")
    write_splits(directory / "text", {"train": 60, "valid": 6, "test": 4}, seed=1)
    (directory / "sharp.py").write_text(FILE)
    (directory / "run.toml").write_text(CONFIG)
    return directory


def run(directory: Path, line: str, path: Path | None = None, code: int = 0) -> str:
    """Run a command line, with `path` on the import path, and return its output."""
    return run_python(directory, f"-m regard {line}", path, code)


def run_python(directory: Path, line: str, path: Path | None = None, code: int = 0) -> str:
    """Run Python with the arguments of a line, and return its output."""
    paths = [*([str(path)] if path else []), *sys.path]
    done = subprocess.run(
        [sys.executable, *shlex.split(line)],
        cwd=directory,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def load_listed(model: Path) -> list[str]:
    """Return the plugins that a model directory records."""
    return tomllib.loads((model / "config.toml").read_text())["plugins"]


def install(site: Path, name: str, module: str) -> None:
    """Write the metadata of an installed package, with the entry point of its plugin."""
    about = site / f"{name}-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(f"[regard.plugins]\n{name} = {module}\n")


@pytest.fixture(scope="module")
def installed(directory: Path, tmp_path_factory) -> Path:
    """Return a directory in which the example plugin is installed, with its entry point."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE / "regard_topk", site / "regard_topk")
    install(site, "topk", "regard_topk")
    return site


@pytest.mark.slow
def test_installed_plugin_is_used_by_every_command(directory, installed) -> None:
    train = "train run.toml \"model.attention={ kind = 'topk', k = 2 }\" --output-dir topk"
    assert "k = 8" in run(directory, "config model.attention", installed)
    run(directory, train, installed)
    assert load_listed(directory / "topk") == ["regard_topk"]
    run(directory, f"{train} training.max_epochs=2", installed)  # resumes
    source, target = "text/test.de", "text/test.en"
    run(directory, f"translate topk --input {source} --output out.en", installed)
    run(directory, f"score topk {source} {target}", installed)
    texts = f"--source {source} --reference {target}"
    run(directory, f"analyze attention topk {texts} --json attention.json", installed)
    assert json.loads((directory / "attention.json").read_text())
    run(directory, f"report topk --test {source} {target} -o report.html", installed)
    assert "topk" in (directory / "report.html").read_text()
    run(directory, f"evaluate out.en {target} --metrics length_ratio --json s.json", installed)
    assert json.loads((directory / "s.json").read_text())["metrics"][0]["score"] > 0
    # Without the package, the directory names the plugin, and imports nothing.
    output = run(directory, f"translate topk --input {source}", code=1)
    assert "needs the plugin 'regard_topk'" in output and "--plugin" in output


@pytest.mark.slow
def test_plugin_file_of_a_flag_of_python_and_of_a_config(directory, monkeypatch) -> None:
    attention = "\"model.attention={ kind = 'sharp', temperature = 0.7 }\""
    translate = "translate sharp --input text/test.de"
    run(directory, f"train run.toml {attention} --output-dir sharp --plugin sharp.py")
    assert load_listed(directory / "sharp") == ["sharp.py"]
    output = run(directory, f"{translate} --plugin sharp.py")
    assert output == run(directory, f"--plugin=sharp.py {translate}")
    # A model directory never causes an import, even if the file lies there.
    assert "needs the plugin 'sharp.py'" in run(directory, translate, code=1)
    monkeypatch.chdir(directory)
    with pytest.raises(CheckpointError, match=r"needs the plugin 'sharp\.py'"):
        regard.load("sharp")
    regard.load_plugins(["sharp.py"])
    assert regard.load("sharp").translate("Hallo").text is not None
    (directory / "listed.toml").write_text(f'plugins = ["sharp.py"]\n{CONFIG}')
    run(directory, f"train listed.toml {attention} training.max_steps=1 --output-dir listed")


def test_missing_and_broken_plugins_are_one_message(directory) -> None:
    for text, name, expected in (
        (None, "absent.py", "no such file"),
        (None, "absent_package", "is not installed"),
        ("raise ValueError('half done')", "raises.py", "cannot be imported: ValueError: half done"),
        ("def f(:\n", "syntax.py", "SyntaxError"),
    ):
        if text is not None:
            (directory / name).write_text(text)
        found = run(directory, f"config --plugin {name}", code=2)
        assert expected in found and name in found and len(found.splitlines()) == 1, found


@pytest.mark.slow
def test_installed_plugin_that_fails_is_named_and_leaves_the_rest(directory, tmp_path) -> None:
    (tmp_path / "half.py").write_text("raise RuntimeError('half')\n")
    install(tmp_path, "half", "half")
    found = run(directory, "config model.attention", tmp_path)
    assert "plugin 'half' cannot be imported: RuntimeError: half" in found and 'kind = "soft"' in found
    # A model that needs the plugin is not loaded without it.
    run(directory, "train run.toml training.max_steps=1 --output-dir needs")
    config = directory / "needs" / "config.toml"
    written = config.read_text()
    assert "plugins = []" in written and 'kind = "soft"' in written
    written = written.replace("plugins = []", 'plugins = ["half"]')
    config.write_text(written.replace('kind = "soft"', 'kind = "halves"'))
    found = run(directory, "translate needs --input text/test.de", tmp_path, code=1)
    assert "needs the plugin 'half'" in found and "RuntimeError: half" in found


def test_own_parameters_of_a_plugin_keep_their_values(directory) -> None:
    class WarmAttention(ScoredAttention):
        def __init__(self, config: WarmConfig, query_size: int, memory_size: int) -> None:
            super().__init__(query_size, memory_size)
            self.temperature = torch.nn.Parameter(torch.tensor(7.0))

        def normalize(self, scores, mask):
            return softmax(scores / self.temperature, mask=mask)

    regard.register_attention("warm")(WarmAttention)
    model = build_model(RnnConfig(embedding_size=8, attention=WarmConfig(), init_range=0.1), 9, 9)
    values = dict(model.named_parameters())
    (name,) = (name for name in values if name.endswith("temperature"))
    assert values.pop(name).item() == 7
    assert max(float(value.detach().abs().max()) for value in values.values()) <= 0.1


def test_metric_with_too_few_rows_is_rejected() -> None:
    regard.register_metric("short")(lambda data: SentenceCounts.ratio("short", [(1, 2)]))
    with pytest.raises(UsageError, match="'short': 1 rows of counts for 2 sentences"):
        regard.evaluate(["a", "b"], ["a", "b"], metrics="short")
    assert SentenceCounts.ratio("x", [(0.02, 0.04), (0, 0)], scale=100.0).corpus_score() == 50


def test_file_that_is_imported_twice_is_one_plugin(directory, monkeypatch) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(str(directory))
    __import__("sharp")
    regard.load_plugins(["sharp.py"])
    assert "sharp" in ATTENTION.names()
    with pytest.raises(PluginError, match="expected a list of names"):
        regard.load_plugins("sharp.py")


@configclass
class IncompleteConfig:
    kind: Literal["incomplete"] = "incomplete"


@configclass
class UnnamedConfig:
    k: int = 1


class Incomplete:
    def __init__(self, config: int) -> None: ...


attention = regard.register_attention


@pytest.mark.parametrize(
    ("register", "name", "config", "part", "message"),
    [
        (attention, "bare", Incomplete, Incomplete, r"decorate it with @regard\.configclass"),
        (attention, "bare", None, Incomplete, "not a configuration class"),
        (attention, "bare", None, object, "`config` of __init__ has no annotation"),
        (attention, "unnamed", UnnamedConfig, Incomplete, "needs the field `kind: Literal"),
        (attention, "soft", SoftAttentionConfig, Incomplete, "'soft' is already registered by"),
        (attention, "incomplete", IncompleteConfig, ScoredAttention, "not define `normalize`"),
        (attention, "incomplete", IncompleteConfig, LossTerm, r"is not a subclass of .*Attention"),
        (regard.register_loss, "incomplete", IncompleteConfig, LossTerm, "does not define `add`"),
        (regard.register_tokenizer, "incomplete", IncompleteConfig, Tokenizer, "`decode` and `pretokenize`"),
        (regard.register_model, "incomplete", IncompleteConfig, torch.nn.Linear, "not a subclass of regard"),
    ],
)
def test_a_part_that_breaks_its_contract_is_refused(register, name, config, part, message) -> None:
    subclass = type("Part", (part,), {"__module__": __name__})
    with pytest.raises(PluginError, match=message):
        register(name, config)(subclass)


def test_a_function_that_is_not_a_normalizer_or_a_metric_is_refused() -> None:
    with pytest.raises(PluginError, match=r"normalizer 'plain': .* is not a function of scores and `mask`"):
        regard.register_normalizer("plain")(lambda scores: scores)
    with pytest.raises(PluginError, match="letters, digits and underscores"):
        regard.register_normalizer("a b")(lambda scores, mask: scores)
    with pytest.raises(PluginError, match="is not a function of a MetricInput"):
        METRICS.register("plain")(type("Plain", (), {})())
    with pytest.raises(PluginError, match=r"'plain': .* is not a subclass of .*AttentionScorer"):
        regard.register_score_function("plain")(ScoredAttention)


SCRIPT = f"""
import logging
{FILE}
logging.basicConfig()
regard.train("run.toml", "runs/own", overrides=["model.attention.kind=sharp", "training.max_steps=1"])
regard.load("runs/own")
"""


@pytest.mark.slow
def test_a_part_of_a_script_is_not_recorded_as_a_plugin(directory) -> None:
    (directory / "script.py").write_text(SCRIPT)
    output = run_python(directory, "script.py")
    assert "move the part to a file and give it as a plugin: --plugin parts.py" in output
    assert load_listed(directory / "runs" / "own") == []
    with pytest.raises(CheckpointError, match=r"attention.*or a kind of a plugin \(--plugin FILE"):
        load_config(directory / "runs" / "own")


TOKENIZER = """
from typing import Literal
import regard
from regard.text.tokenizers.base import Tokenizer

@regard.configclass
class SlashConfig:
    kind: Literal["slash"] = "slash"

@regard.register_tokenizer("slash")
class Slash(Tokenizer):
    def __init__(self, config: SlashConfig) -> None:
        super().__init__(config)

    def pretokenize(self, line):
        return line.split("/")

    def decode(self, tokens):
        return "/".join(tokens)
"""


def test_a_tokenizer_of_a_plugin_file_works_in_worker_processes(directory, monkeypatch) -> None:
    (directory / "slash.py").write_text(TOKENIZER)
    for side in ("s", "t"):
        (directory / side).write_text("a/b c\nb c/d\n" * 3)
    monkeypatch.setattr(preprocessing, "SINGLE_PROCESS_PAIRS", 0)
    monkeypatch.setattr(preprocessing, "num_available_cpus", lambda: 2)
    monkeypatch.chdir(directory)
    regard.load_plugins(["slash.py"])
    # A relative path must not depend on the directory in which the workers start.
    monkeypatch.chdir("text")
    pair = {"source": str(directory / "s"), "target": str(directory / "t")}
    data = {"train": [pair], "valid": pair, "cache_dir": str(directory / "slashed")}
    data |= {"source_tokenizer": {"kind": "slash"}, "target_tokenizer": {"kind": "slash"}}
    prepared = prepare_data(from_dict(DataConfig, data))
    assert {"b c", "a", "d"} < set(prepared.text.source.vocabulary.tokens)


def test_a_cell_that_is_run_again_replaces_its_own_part() -> None:
    for _ in range(2):

        @configclass
        class Config:
            kind: Literal["cell"] = "cell"

        @regard.register_attention("cell", Config)
        class Cell(ScoredAttention):
            def __init__(self, config: Config, query_size: int, memory_size: int) -> None: ...

            def normalize(self, scores, mask):
                return scores

    assert ATTENTION.get("cell") is Cell


def test_registered_normalizer_is_a_value_of_the_option() -> None:
    run = {"data": {"train": [{"source": "a", "target": "b"}], "valid": {"source": "a", "target": "b"}}}
    run["model"] = {"attention": {"normalizer": "halves"}}  # type: ignore[assignment]
    with pytest.raises(
        ConfigError, match=r"model\.attention\.normalizer: expected 'softmax' or .*; got 'halves'"
    ):
        from_dict(RunConfig, run)
    regard.register_normalizer("halves")(lambda scores, mask: scores)
    config = from_dict(RunConfig, run)
    assert config.model.attention.normalizer == "halves"
    # The model directory records the module that registered the normalizer.
    assert config.with_plugins().plugins == (__name__,)


@pytest.mark.slow
def test_tutorial_works_as_written(directory) -> None:
    page = (Path(__file__).parents[1] / "docs" / "extend.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    mechanism, normalizer, check, _, aligner, detector, loss, metric = blocks
    (directory / "topk.py").write_text(mechanism + normalizer + loss + metric)
    (directory / "check.py").write_text(mechanism[: mechanism.index("@")] + check + aligner + detector)
    run_python(directory, "check.py")
    train = "train run.toml --plugin topk.py training.max_steps=2"
    options = "\"model.attention={ kind = 'topk', k = 4 }\" training.validation.metric=length_ratio"
    options += " \"training.losses=[{ kind = 'attention_entropy' }]\" --output-dir runs/topk"
    assert "Best validation length ratio" in run(directory, f"{train} {options}")
    run(directory, f"{train} model.attention.normalizer=softmax_sharp --output-dir runs/s")
    assert load_listed(directory / "runs" / "s") == ["topk.py"]
