"""Commands that are killed or cannot write, at any write event, lose no files: a sample of the cases."""

import pytest

from .commands import BASE, COMMANDS
from .injector import attack, chosen, compiler, workbench

GATE = ("prepare again", "lm", "align", "train", "average", "export", "translate", "init")
"""One command of every kind: a new, a replaced and a write-once directory, one file, several files, a run."""

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    needed = [line for line in BASE if not line.startswith("report")]
    with workbench(tmp_path_factory.mktemp("faults").resolve(), needed) as made:
        yield made


def test_no_file_is_lost_or_half_written_at_any_write_event(bench):
    commands = [command for command in COMMANDS if command.name in GATE]
    assert len(commands) == len(GATE)
    failures = []
    for command, mode, event in chosen(bench, 28, 1, commands):
        failures += attack(bench, command, mode, event)
    assert not failures, "\n".join(failures)
