"""Tests of the ordered map over worker processes."""

import os
import threading
from operator import neg

import pytest

from regard.errors import RegardError
from regard.text.workers import ordered_map


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_are_in_item_order(processes):
    assert list(ordered_map(neg, range(50), processes)) == [-i for i in range(50)]


def test_only_a_few_items_are_read_ahead():
    read = []

    def items():
        for i in range(1000):
            read.append(i)
            yield i

    results = ordered_map(neg, items(), 2)
    assert next(results) == 0
    assert len(read) < 10
    results.close()


def test_dead_worker_raises_an_error_and_all_workers_stop():
    before = threading.active_count()
    with pytest.raises(RegardError, match="ended with status 3"):
        list(ordered_map(os._exit, [3, 3, 3], 2))
    assert threading.active_count() == before


def test_output_of_workers_goes_to_stderr(capfd):
    assert list(ordered_map(print, ["a", "b"], 2)) == [None, None]
    # Two processes may print at the same time, so the order of letters and line ends is undetermined.
    assert sorted("".join(capfd.readouterr().err.split())) == ["a", "b"]


def test_error_of_the_caller_stops_the_workers():
    def items():
        yield 1
        raise KeyError("stop")

    before = threading.active_count()
    with pytest.raises(KeyError):
        list(ordered_map(neg, items(), 2))
    assert threading.active_count() == before
