"""The queue of a model: batching, fairness, capacity, and cancellation."""

import asyncio
import threading
import time

import pytest
from fastapi import HTTPException

from regard.extensions.serve.dispatcher import Batcher


class Worker:
    """Doubles numbers; its first batch can be delayed."""

    def __init__(self, held=False):
        self.open = threading.Event()
        self.begun = threading.Event()
        if not held:
            self.open.set()
        self.seen = []

    def __call__(self, settings, items):
        self.begun.set()
        assert self.open.wait(10)
        self.seen.append((settings, list(items)))
        return [ValueError(item) if item < 0 else 2 * item for item in items]

    async def busy(self):
        """Wait until the first batch has begun."""
        while not self.begun.is_set():
            await asyncio.sleep(0.001)


def with_batcher(held=False, **settings):
    """Return a decorator that runs a test with a batcher and a worker."""

    def decorate(test):
        async def main():
            worker = Worker(held)
            chosen = {"max_batch_size": 4, "window": 0.005, "max_waiting": 20, **settings}
            batcher = Batcher(worker, **chosen)
            batcher.start()
            try:
                await asyncio.wait_for(test(batcher, worker), 20)
            finally:
                worker.open.set()
                await batcher.close()

        return lambda: asyncio.run(main())

    return decorate


@with_batcher()
async def test_each_item_gets_its_own_result_or_error(batcher, worker):
    futures = [batcher.submit([i], "s", [1])[0] for i in range(-1, 10)]
    invalid, *others = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(invalid, ValueError) and others == [2 * i for i in range(10)]
    assert max(len(items) for _, items in worker.seen) <= 4 and not batcher.waiting


@with_batcher(window=15.0, max_batch_size=2)
async def test_items_within_the_window_share_a_batch(batcher, worker):
    began = time.monotonic()
    first = batcher.submit([1], "s", [1])
    await asyncio.sleep(0.01)
    second = batcher.submit([2], "s", [1])
    await asyncio.gather(*first, *second)
    assert [items for _, items in worker.seen] == [[1, 2]]
    assert time.monotonic() - began < 10  # a full batch starts at once


@with_batcher()
async def test_batch_has_one_setting_and_is_sorted_by_length(batcher, worker):
    futures = batcher.submit([1, 2, 3], "s", [2, 9, 5]) + batcher.submit([4], "other", [7])
    await asyncio.gather(*futures)
    assert sorted(worker.seen) == [("other", [4]), ("s", [2, 3, 1])]


@with_batcher()
async def test_failed_batch_reports_to_all_items_and_the_queue_continues(batcher, worker):
    found = await asyncio.gather(*batcher.submit([1, None], "s", [1, 1]), return_exceptions=True)
    assert [type(one) for one in found] == [TypeError, TypeError]
    assert await batcher.submit([3], "s", [1])[0] == 6


@with_batcher(held=True, max_waiting=4)
async def test_full_queue_rejects_the_whole_request_with_a_retry_time(batcher, worker):
    running = batcher.submit([0], "s", [1])
    await worker.busy()
    waiting = batcher.submit([1, 2, 3], "s", [1, 1, 1])
    with pytest.raises(HTTPException, match="429") as full:
        batcher.submit([4, 5], "s", [1, 1])
    assert int(full.value.headers["Retry-After"]) >= 1 and len(batcher.waiting) == 3
    worker.open.set()
    await asyncio.gather(*running, *waiting)
    assert await batcher.submit([4, 5], "s", [1, 1])[1] == 10


@with_batcher(held=True)
async def test_canceled_item_leaves_the_queue_unprocessed(batcher, worker):
    running = batcher.submit([0], "s", [1])
    await worker.busy()
    gone, stays = batcher.submit([1, 2], "s", [1, 1])
    gone.cancel()
    await asyncio.sleep(0)
    assert len(batcher.waiting) == 1
    worker.open.set()
    assert await stays == 4
    await asyncio.gather(*running)
    assert [items for _, items in worker.seen] == [[0], [2]]


@with_batcher(held=True)
async def test_long_text_does_not_delay_a_single_sentence(batcher, worker):
    running = batcher.submit([0], "s", [1])
    await worker.busy()
    long = batcher.submit(list(range(10, 22)), "s", [1] * 12)
    single = batcher.submit([99], "s", [1])
    worker.open.set()
    await asyncio.gather(*running, *long, *single)
    assert 99 in worker.seen[1][1]


@with_batcher(held=True, max_batch_size=2)
async def test_closing_finishes_queued_items_and_accepts_no_more(batcher, worker):
    futures = batcher.submit([1, 2, 3, 4, 5], "s", [1] * 5)
    closing = asyncio.ensure_future(batcher.close())
    await asyncio.sleep(0.01)
    with pytest.raises(HTTPException, match="503"):
        batcher.submit([6], "s", [1])
    worker.open.set()
    await closing
    assert [future.result() for future in futures] == [2, 4, 6, 8, 10]
