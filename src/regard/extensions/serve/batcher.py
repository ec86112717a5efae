"""Dynamic batching: sentences of different requests are translated together by one thread per model.

A batch contains sentences with the same settings. It starts when it is full, when no further sentence has
arrived for the length of the window, or when four windows have passed since the thread was free and the first
sentence had arrived. The last rule keeps clients together that were answered in one batch and send their next
requests shortly after each other. While the thread works, the queue collects the next batch.

The order is fair between requests: the due time of a sentence is the clock of the queue plus the position of
the sentence in its request (start-time fair queueing, Goyal et al., 1996). A long text therefore does not
delay a single sentence of another client.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Batcher", "QueueClosedError", "QueueFullError"]

MAX_WINDOWS = 4
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Work = Callable[[Any, Sequence[Item]], Sequence[Answer | Exception]]


class QueueFullError(Exception):
    """The queue has no room for a request.

    Attributes:
        retry_after: Estimated time in seconds until the queue has room.
    """

    def __init__(self, seconds: int) -> None:
        """Store the estimated time."""
        super().__init__(f"too many sentences are waiting: try again in {seconds} s")
        self.retry_after = seconds


class QueueClosedError(Exception):
    """The server is shutting down."""


@dataclass(eq=False)
class _QueueItem:
    """An item in the queue, with its due time, its arrival time in seconds and the future of its answer."""

    item: Any
    settings: Hashable
    length: int
    due: int
    since: float
    future: asyncio.Future[Any]


class Batcher(Generic[Item, Answer]):
    """Collects items into batches and processes them in a separate thread.

    Args:
        work: Function from settings and items to an answer or an exception for each item.
        max_batch_size: Maximum number of items in a batch.
        window: Time in seconds that a batch waits for another item; `MAX_WINDOWS` times this in total.
        max_waiting: Maximum number of waiting items.
    """

    def __init__(
        self, work: "Work[Item, Answer]", max_batch_size: int, window: float, max_waiting: int
    ) -> None:
        """Create an empty queue; `start` starts processing."""
        self._work, self._max_batch_size = work, max_batch_size
        self._window, self._max_waiting = window, max_waiting
        self._waiting: list[_QueueItem] = []
        self._clock = 0
        self._seconds = 0.05  # run time per sentence, an exponential moving average
        self._changed = asyncio.Event()
        self._closed = False
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start processing in the running event loop; also possible again after `close`."""
        self._changed, self._closed = asyncio.Event(), False
        self._loop = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop accepting items, process the waiting items, and stop."""
        self._closed = True
        self._changed.set()
        if self._loop is not None:
            await self._loop

    @property
    def waiting(self) -> int:
        """The number of waiting items."""
        return len(self._waiting)

    def submit(
        self, items: Sequence[Item], settings: Hashable, lengths: Sequence[int]
    ) -> list[asyncio.Future[Answer]]:
        """Queue the items of a request, either all or none of them.

        Args:
            items: The items.
            settings: Items with equal settings may share a batch.
            lengths: The length of each item; a batch is sorted by length.

        Returns:
            A future for each item. Its `cancel` removes the item from the queue.

        Raises:
            QueueFullError: if the queue has no room for all items.
            QueueClosedError: if the server is shutting down.
        """
        if self._closed or self._loop is None:
            raise QueueClosedError("the server is shutting down")
        if len(self._waiting) + len(items) > self._max_waiting:
            # The time to process the whole queue is an upper estimate of the time until it has room.
            raise QueueFullError(max(1, math.ceil(self._seconds * len(self._waiting))))
        loop, now = asyncio.get_running_loop(), time.monotonic()
        places = [
            _QueueItem(item, settings, length, self._clock + number, now, loop.create_future())
            for number, (item, length) in enumerate(zip(items, lengths, strict=True))
        ]
        for place in places:
            place.future.add_done_callback(lambda _, place=place: self._remove_canceled(place))
        self._waiting += places
        self._changed.set()
        return [place.future for place in places]

    def _remove_canceled(self, place: _QueueItem) -> None:
        """Remove a canceled item from the queue; items of a started batch have been removed already."""
        if place.future.cancelled() and place in self._waiting:
            self._waiting.remove(place)
            self._changed.set()

    async def _run(self) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="regard-batch") as thread:
            await self._serve(thread)

    async def _serve(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                if self._closed:
                    return
                self._changed.clear()
                await self._changed.wait()
            await self._collect_batch()
            chosen = self._take_batch()
            if not chosen:
                continue  # all items were canceled while the batch was collected
            started = time.monotonic()
            items = [place.item for place in chosen]
            try:
                answers = await loop.run_in_executor(thread, self._work, chosen[0].settings, items)
            except Exception as error:  # each waiting request must get an answer, and the queue continues
                answers = [error] * len(chosen)
            seconds = time.monotonic() - started
            # The weight 0.2 averages over about the last five batches.
            self._seconds += 0.2 * (seconds / len(chosen) - self._seconds)
            for place, answer in zip(chosen, answers, strict=True):
                if place.future.done():
                    continue
                if isinstance(answer, Exception):
                    place.future.set_exception(answer)
                else:
                    place.future.set_result(answer)

    async def _collect_batch(self) -> None:
        """Wait until the batch is full or the window has passed without another item.

        Items that arrived while the thread was busy also wait for a window from the moment it is free. At
        that moment the clients that were just answered send their next requests, which join the batch.
        Without this wait the clients split into two halves that wait for each other.
        """
        free = time.monotonic()
        while self._waiting and len(self._waiting) < self._max_batch_size and not self._closed:
            came = [max(place.since, free) for place in self._waiting]
            end = min(min(came) + MAX_WINDOWS * self._window, max(came) + self._window)
            left = end - time.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _take_batch(self) -> list[_QueueItem]:
        """Remove the items of the next batch from the queue and return them, longest first."""
        order = sorted(self._waiting, key=lambda place: (place.due, place.since))
        if not order:
            return []
        alike = [place for place in order if place.settings == order[0].settings][: self._max_batch_size]
        # The clock advances to the latest due time in the batch. New requests start from there, so that
        # requests that are already waiting keep their precedence.
        self._clock = max(self._clock, alike[-1].due)
        taken = set(map(id, alike))
        self._waiting = [place for place in self._waiting if id(place) not in taken]
        return sorted(alike, key=lambda place: -place.length)
