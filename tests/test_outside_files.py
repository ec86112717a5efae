"""A command that uses a model directory opens no file outside it that the directory names or links to."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import regard
from extensions.serve.served import ask
from quick_coverage import train_quickly
from regard.analyze import errors
from regard.api.systems import Companions
from regard.cli.main import app
from regard.config import from_dict
from regard.data.training_text import read_training_pairs, read_training_text
from regard.errors import RegardError, UsageError
from regard.extensions.phrasebook.corpus import generate
from regard.extensions.serve.engine import load_engines, to_plain_text
from regard.training.run import run_training
from regard.training.run_config import RunConfig, load_config
from saved_models import small_rnn

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="opened files are observed with inotify"),
]

MODEL = small_rnn(4) | {"attention": {"kind": "constrained"}}
FERTILITY = {"kind": "predicted", "aligner": "ibm1", "hidden_size": 4, "max_epochs": 1}
TRAINING = {"batch_size": 64, "max_epochs": 1, "checkpoint": {"keep_last_epochs": 1}}
IN_OPEN = 0x20  # from sys/inotify.h

Command = tuple[Any, ...]


@contextmanager
def opened_files(directory: Path) -> Iterator[list[str]]:
    """Yield a list that, after the block, has the names of all files that were opened in a directory.

    The kernel reports them, so that files that compiled libraries and other processes open are included.
    """
    names: list[str] = []
    libc = ctypes.CDLL(None)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    try:
        for place in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
            assert libc.inotify_add_watch(descriptor, os.fsencode(place), IN_OPEN) >= 0
        yield names
        try:
            while events := os.read(descriptor, 1 << 16):
                while events:
                    size = int.from_bytes(events[12:16], sys.byteorder)
                    names.append(events[16 : 16 + size].rstrip(b"\0").decode())
                    events = events[16 + size :]
        except BlockingIOError:
            pass  # all events have been read
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory with a model that was trained on the files of the directory `outside`."""
    work = tmp_path_factory.mktemp("work")
    outside = work / "outside"
    outside.mkdir()
    pairs = list(islice(generate(1), 150))
    for side in ("source", "target"):
        lines = "".join(f"{' '.join(getattr(pair, side))}\n" for pair in pairs)
        (outside / side).write_text(lines)
        (work / side).write_text("".join(lines.splitlines(keepends=True)[:3]))
    corpus = {"source": str(outside / "source"), "target": str(outside / "target")}
    data = {"train": [corpus], "valid": corpus, "test": corpus, "cache_dir": str(outside / "prepared")}
    plain = {"device": "cpu", "num_threads": 1, "training": TRAINING, "generation": {"max_length_ratio": 1.0}}
    with pytest.MonkeyPatch.context() as patch:
        train_quickly(patch)
        phrase = {"kind": "phrase", "lm_order": 2, "tuning": {"num_rounds": 1}}
        transformer = {"kind": "transformer", "d_model": 8, "num_heads": 2, "feed_forward": {"ffn_size": 8}}
        for name, model in (("rnn", MODEL), ("phrase", phrase), ("transformer", transformer)):
            fertility = {"fertility": FERTILITY} if name == "rnn" else {}
            settings = {**plain, "data": {**data, **fertility}, "model": model}
            run_training(from_dict(RunConfig, settings), work / name)
        yield work


def commands(model: Path, work: Path, new: Path) -> list[Command]:
    """Return the commands of the command line that use a model directory."""
    texts = work / "source", work / "target"
    test = "--source", texts[0], "--reference", texts[1]
    names = {path.name for path in model.iterdir()}
    # Only this kind can be exported. Its other files are those of a recurrent model.
    if model.name == "transformer":
        return [("export", model, "-o", new / "exported")]
    neural: list[Command] = [
        ("score", model, *texts),
        ("tune", model, *test),
        ("analyze", "attention", model, *test),
        ("average", new / "averaged", model),
        ("average", new / "epochs", model, "--last-epochs", 1),
    ]
    return [
        ("translate", model, "--input", texts[0]),
        ("report", model, "--test", *texts, "-o", new / "page.html"),
        ("analyze", "errors", model, *test),
        ("analyze", "length", model, *test),
        *(neural if "phrase" not in names else []),
        *([("fertility", texts[0], "--predictor", model / "predictor")] if "predictor" in names else []),
        ("fertility", *texts, "--model", model),
    ]


def run(*arguments: Any) -> BaseException | None:
    """Run a command in this process; return its error if it is one of regard."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, RegardError | SystemExit):
        raise result.exception
    return result.exception


@pytest.mark.parametrize("kind", ["rnn", "transformer", "phrase"])
def test_no_command_opens_a_file_that_the_configuration_names(work: Path, tmp_path: Path, kind: str) -> None:
    model = Path(shutil.copytree(work / kind, tmp_path / kind))
    with opened_files(work / "outside") as names:
        for command in commands(model, work, tmp_path):
            assert run(*command) is None, command
    assert names == []


def test_python_and_the_server_use_only_the_text_in_the_directory(work: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(work / "rnn", tmp_path / "rnn"))
    texts = work / "source", work / "target"

    async def examples(client: Any) -> Any:
        return (await client.get("/models")).json()["models"][0]["examples"]

    with opened_files(work / "outside") as names:
        regard.report(model, test=texts, output=tmp_path / "page.html")
        errors(model, *texts)
        engines = load_engines([model], "cpu")
        local, public = ask(engines, examples), ask(engines, examples, host="0.0.0.0")
        with pytest.raises(UsageError, match="test='config'"):
            regard.report(model, output=tmp_path / "page.html")
    assert names == []
    stored = read_training_text(model)
    assert stored is not None and len(stored.examples) == 4
    assert set(stored.examples) <= set((work / "outside" / "source").read_text().splitlines())
    text_format = engines[0].text.source.text_format
    assert local == public == [to_plain_text(line, text_format) for line in stored.examples]
    with opened_files(work / "outside") as names:
        regard.report(model, test="config", output=tmp_path / "page.html")
    assert set(names) == {"source", "target"}


def test_a_model_directory_contains_the_first_pairs_and_the_size_of_its_text(work: Path) -> None:
    sides = [(work / "outside" / side).read_text().splitlines() for side in ("source", "target")]
    assert list(read_training_pairs(work / "rnn")) == list(zip(*sides, strict=True))
    text = read_training_text(work / "rnn")
    assert text is not None and text.num_pairs == 150
    # Words separated by spaces, and the end symbol of each target sentence is not counted.
    assert text.num_tokens == tuple(sum(len(line.split()) for line in lines) for lines in sides)
    assert len(list(Companions(work / "rnn", max_pairs=7).pairs())) == 7


@pytest.mark.parametrize("kind", ["rnn", "phrase"])
def test_no_command_follows_a_link_out_of_the_directory(work: Path, tmp_path: Path, kind: str) -> None:
    texts = work / "source", work / "target"
    # The directory has been used for a report, so that it contains an aligner and a checker as well.
    report = "report", "--test", *texts, "-o", tmp_path / "page.html", "--num-threads", 1
    original = Path(shutil.copytree(work / kind, tmp_path / kind))
    assert run(*report, original) is None

    for number, entry in enumerate(sorted(original.rglob("*"))):
        model, outside = (tmp_path / str(number) / name for name in (kind, "outside"))
        shutil.copytree(original, model)
        outside.mkdir()
        linked = model / entry.relative_to(original)
        linked.rename(outside / linked.name)
        linked.symlink_to(outside / linked.name)
        with opened_files(outside) as names:
            run(*report, model)
            run("average", tmp_path / str(number) / "averaged", model, "--last-epochs", 1)
            # A user who names a link means its target.
            if linked.name != "predictor":
                run("fertility", texts[0], "--predictor", model / "predictor")
            with suppress(RegardError):
                run_training(load_config(original), model)
        assert names == [], linked
