"""The examples of docs/howto/large_text.md, run by OpusCleaner and OpusFilter."""

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import doc_blocks
import pytest
import yaml
from command_runs import run

import regard
from quick_coverage import phrasebook_model
from regard.errors import UsageError
from regard.extensions.phrasebook.corpus import generate

BLOCKS = {
    block.language: block.code for block in doc_blocks.blocks(doc_blocks.ROOT / "docs/howto/large_text.md")
}


@pytest.fixture
def texts(tmp_path, tmp_path_factory, monkeypatch) -> list[tuple[str, str]]:
    """Write 40 pairs, of which every fourth has an error, and a checker; return the pairs."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(phrasebook_model(tmp_path_factory), tmp_path / "checker")
    pairs = [(" ".join(pair.source), " ".join(pair.target)) for pair in islice(generate(3), 40)]
    pairs[::4] = [(source, f"{target} {target}") for source, target in pairs[::4]]
    for side, name in enumerate(("source.txt", "translation.txt")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return pairs


def tsv(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


@pytest.fixture
def clean(texts) -> list[tuple[str, str]]:
    """Return the pairs whose errors are improbable."""
    sentences = regard.CoverageModel.load("checker").check_pairs(texts)
    clean = [pair for pair, sentence in zip(texts, sentences, strict=True) if sentence.worst < 0.5]
    assert not set(clean) & set(texts[::4]) and len(clean) > 20
    return clean


def test_filter_writes_the_pairs_without_a_probable_error(texts, clean) -> None:
    done = run(*"check - --checker checker --filter 0.5 --findings new.jsonl".split(), input=tsv(texts))
    assert done.stdout == tsv(clean)
    assert Path("new.jsonl").read_text(encoding="utf-8").count("\n") >= len(texts) - len(clean)
    with pytest.raises(UsageError, match="--filter needs pairs on standard input"):
        run(*"check source.txt translation.txt --filter 0.5".split())


@pytest.mark.slow
def test_opuscleaner_runs_the_filter(texts, clean, tmp_path) -> None:
    if (program := shutil.which("opuscleaner-clean")) is None:
        pytest.skip("needs OpusCleaner, in an environment of its own: pipx install opuscleaner")
    for name in ("filters", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "filters" / "regard.json").write_text(BLOCKS["json"])
    command = tmp_path / "bin" / "regard"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m regard "$@"\n')
    command.chmod(0o755)
    step = {"filter": "regard", "parameters": {"CHECKER": str(tmp_path / "checker"), "PROBABILITY": 0.5}}
    (tmp_path / "steps.json").write_text(json.dumps({"version": 1, "files": [], "filters": [step]}))
    done = subprocess.run(
        [program, "--input", "-", "steps.json", "de", "en"], input=tsv(texts), capture_output=True,
        encoding="utf-8", env=os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == tsv(clean), done.stderr


@pytest.mark.slow
def test_opusfilter_loads_the_class(texts, clean, tmp_path) -> None:
    pytest.importorskip("opusfilter", reason="needs OpusFilter: pip install opusfilter")
    steps = yaml.safe_load(BLOCKS["yaml"])
    (filters,) = (step["parameters"]["filters"] for step in steps["steps"])
    inputs = ["source.txt", "translation.txt"]
    others = {"inputs": inputs, "outputs": ["x.de", "x.en"], "filters": filters, "filterfalse": True}
    scores = {"inputs": inputs, "output": "scores.jsonl", "filters": filters}
    steps["steps"] += [{"type": "filter", "parameters": others}, {"type": "score", "parameters": scores}]
    (tmp_path / "steps.yaml").write_text(json.dumps(steps))
    program = Path(sys.executable).with_name("opusfilter")
    done = subprocess.run([program, "steps.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = [
        list(
            zip(*((tmp_path / name).read_text(encoding="utf-8").splitlines() for name in names), strict=True)
        )
        for names in (["clean.source.txt", "clean.translation.txt"], ["x.de", "x.en"])
    ]
    assert written == [clean, [pair for pair in texts if pair not in clean]]
    rows = [json.loads(row) for row in (tmp_path / "scores.jsonl").read_text().splitlines()]
    accepted = [max(row["CoverageFilter"].values()) < 0.5 for row in rows]
    assert accepted == [pair in clean for pair in texts] and "omission" in rows[0]["CoverageFilter"]
