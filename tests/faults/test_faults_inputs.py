"""Altered inputs end in a result or in one message: a sample of the cases."""

import pytest

from .fuzzer import run

pytestmark = pytest.mark.faults

CASES, MEMORY = 112, 1024


def test_altered_inputs_end_in_a_result_or_one_message():
    rows = run(CASES, 1, MEMORY)
    assert sum(row.cases for row in rows) == CASES and all(row.cases for row in rows)
    failures = [one for row in rows for one in row.failures]
    assert not failures, "\n".join(failures)
