"""Every code block of the README and the site runs, on tiny models, and every configuration is valid.

Blocks that take minutes are marked in the pages; `tools/run_long_examples.py` runs them.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import doc_blocks
import pytest
import site_examples
from docs_world import build_world

from regard.config import from_dict
from regard.extensions.hf.pretraining import PretrainConfig
from regard.training.run_config import RunConfig
from shared_files import shared_directory

HERE = Path(__file__).parent
PAGES = {path.relative_to(doc_blocks.ROOT).as_posix(): path for path in doc_blocks.pages()}
MODELS = {"docs/howto/translate.md": "transformer", "docs/explanation/posterior.md": "posterior"}
"""Pages on which MODEL is a model of another kind than soft attention."""

LONG = ("regard quickstart", "regard tour", "pytest", ".venv-test")
"""Commands that take minutes or need a network, on every page."""

CORPUS = {"source": "s", "target": "t"}


def page_blocks(name: str, *languages: str) -> list[doc_blocks.Block]:
    return [
        replace(block, code=doc_blocks.runnable(block.code, LONG)) if block.language == "sh" else block
        for block in doc_blocks.blocks(PAGES[name])
        if block.language in languages and not block.mark
    ]


RUN = [name for name in PAGES if any(one.code for one in page_blocks(name, "sh", "python"))]
CONFIGURED = [name for name in PAGES if page_blocks(name, "toml")]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of files and models, which the first process builds for all."""
    return shared_directory(tmp_path_factory, "docs-world", build_world)


def run_blocks(blocks: list[dict[str, Any]], world: Path, tmp_path: Path, model: str = "soft") -> None:
    """Run blocks in a copy of the world, in which MODEL is of the given kind."""
    directory = tmp_path / "world"
    shutil.copytree(world, directory)
    shutil.rmtree(directory / "MODEL")
    shutil.copytree(directory / "runs" / model, directory / "MODEL")
    (tmp_path / "blocks.json").write_text(json.dumps(blocks))
    paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "page_runner", str(tmp_path / "blocks.json")],
        cwd=directory, env=os.environ | variables, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.blocks
@pytest.mark.parametrize("name", RUN)
def test_commands_and_python_of_a_page_run(name: str, world: Path, tmp_path: Path) -> None:
    blocks = [asdict(block) for block in page_blocks(name, "sh", "python")]
    run_blocks(blocks, world, tmp_path, MODELS.get(name, "soft"))


@pytest.mark.blocks
def test_examples_of_public_names_run_on_models(world: Path, tmp_path: Path) -> None:
    common, sections = site_examples.sections(site_examples.EXAMPLES / "toolkit.py")
    block = {"line": 0, "language": "python"}
    blocks = [{**block, "page": name, "code": common + code} for name, code in sections.items()]
    run_blocks(blocks, world, tmp_path)


@pytest.mark.parametrize("name", CONFIGURED)
def test_configurations_of_a_page_are_valid(name: str) -> None:
    for block in page_blocks(name, "toml"):
        settings: dict[str, Any] = tomllib.loads(block.code)
        if "project" in settings:
            continue  # the metadata of a package
        if "text" in settings:
            from_dict(PretrainConfig, settings)
            continue
        data = {"train": [CORPUS], "valid": CORPUS, **settings.get("data", {})}
        from_dict(RunConfig, {**settings, "data": data})


def test_blocks_have_a_language_and_few_are_long() -> None:
    every = [block for path in PAGES.values() for block in doc_blocks.blocks(path)]
    assert {block.language for block in every} <= {"sh", "python", "toml", "json", "text", "ini", "yaml"}
    commands = [block for block in every if block.language in ("sh", "python")]
    assert len(commands) > 80
    assert sum(block.mark != "" for block in commands) < len(commands) / 5
