import os
import threading
from operator import neg

import pytest

from regard.data.workers import ordered_map
from regard.errors import RegardError


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes):
    assert list(ordered_map(neg, range(50), processes)) == [-i for i in range(50)]


def test_items_are_read_only_a_few_ahead():
    read = []

    def items():
        for i in range(1000):
            read.append(i)
            yield i

    results = ordered_map(neg, items(), 2)
    assert next(results) == 0
    assert len(read) < 10
    results.close()


def test_a_process_that_dies_is_an_error_and_nothing_is_left_running():
    before = threading.active_count()
    with pytest.raises(RegardError, match="ended with status 3"):
        list(ordered_map(os._exit, [3, 3, 3], 2))
    assert threading.active_count() == before


def test_what_a_library_prints_does_no_harm(capfd):
    assert list(ordered_map(print, ["a", "b"], 2)) == [None, None]
    # Two processes may print at once: only what they print is certain, not where a line ends.
    assert sorted("".join(capfd.readouterr().err.split())) == ["a", "b"]


def test_large_items_do_not_block():
    text = "x" * 3_000_000
    assert [len(t) for t in ordered_map(str.upper, [text] * 6, 2)] == [len(text)] * 6


def test_an_error_of_the_caller_ends_the_processes():
    def items():
        yield 1
        raise KeyError("stop")

    before = threading.active_count()
    with pytest.raises(KeyError):
        list(ordered_map(neg, items(), 2))
    assert threading.active_count() == before
