"""Altered inputs and command lines end in a result or in one message: a sample of the cases."""

import random
import time

import numpy as np
import pytest
import typer

from regard.errors import DataError

from . import fuzzer
from .fuzzer import Target, attack, run

pytestmark = pytest.mark.faults

CASES, MEMORY = 112, 1024


def test_altered_inputs_end_in_a_result_or_one_message():
    rows = run(CASES, 1, MEMORY)
    assert sum(row.cases for row in rows) == CASES and all(row.cases for row in rows)
    failures = [one for row in rows for one in row.failures]
    assert not failures, "\n".join(failures)


@pytest.fixture
def careless(monkeypatch, tmp_path):
    """Patch in a program with one command for each requirement that it violates."""
    app = typer.Typer()
    file = tmp_path / "file"
    file.write_text("12 words")

    def register(name, work):
        app.command(name)(lambda: work(file.read_bytes()))

    def reject(content):
        if content != b"12 words":
            raise DataError("file: altered")

    register("strict", reject)
    register("raises", lambda content: content.decode("ascii").index("12 words"))
    register("lets", lambda content: print(content))
    register("waits", lambda content: time.sleep(0 if content == b"12 words" else 30))
    register("allocates", lambda content: np.ones(1 if content == b"12 words" else 1 << 32))
    monkeypatch.setattr(fuzzer, "app", app)
    monkeypatch.setattr(fuzzer, "SECONDS", 0.2)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("strict", ""),
        ("raises", "ValueError at|UnicodeDecodeError at"),
        ("lets", "a different result without a message"),
        ("waits", "ran for more than"),
        ("allocates", "MemoryError at"),
    ],
)
def test_fuzzer_detects_a_faulty_command(careless, command, message):
    target, rng = Target("careless", "file", command, sealed=True), random.Random(1)

    def detects():
        one = attack(careless, target, rng, "b'12 words'\n")
        found.append(one)
        return any(part in one for part in message.split("|")) if message else bool(one)

    found: list[str] = []
    with fuzzer.limited(512):
        assert any(detects() for _ in range(8)) == bool(message), found
