"""Sentences of many requests translated together: a queue and one working thread for a model.

A batch takes those with the same settings. It starts when it is full, when no other sentence came for the
length of the window, or when four windows have passed since its first one came and the thread was free:
users who were answered together ask again together, one shortly after the other, and are not to be torn
apart. While the thread works, the next batch gathers. Order is fair between requests: each sentence is due
at the queue's clock plus its place in its request (start-time fair queueing, Goyal et al. 1996), so
somebody's long text does not stand in the way of somebody's single sentence.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Batcher", "QueueClosed", "QueueFull", "Watcher"]

PATIENCE = 4
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Work = Callable[[Any, Sequence[Item]], Sequence[Answer | Exception]]


class QueueFull(Exception):
    """There is no room in the queue.

    Attributes:
        seconds: When to ask again.
    """

    def __init__(self, seconds: int) -> None:
        """Keep when to ask again."""
        super().__init__(f"too many sentences are waiting; ask again in {seconds} s")
        self.seconds = seconds


class QueueClosed(Exception):
    """The server is about to stop."""


@dataclass(eq=False)
class _Place:
    """A place in the queue."""

    item: Any
    settings: Hashable
    length: int
    due: int
    since: float
    future: asyncio.Future[Any]


@dataclass
class Watcher:
    """What is told of a queue; this one does not care.

    All methods are called in the event loop.
    """

    def waiting(self, count: int) -> None:
        """So many sentences wait now."""

    def batch(self, size: int, waited: Sequence[float], seconds: float) -> None:
        """A batch is done: its size, how long each waited, how long the work took, in seconds."""

    def freed(self, count: int) -> None:
        """So many sentences were taken out, because nobody waits for them any more."""


class Batcher(Generic[Item, Answer]):
    """Gathers items into batches and hands them to a function in a thread of its own.

    Args:
        work: What is done: settings and items go in, an answer or an exception for each item comes out.
        most: The most items of a batch.
        window: Seconds that a batch waits for one more item, `PATIENCE` times that in all.
        room: The most items that wait.
        watcher: Is told what happens.
    """

    def __init__(
        self,
        work: "Work[Item, Answer]",
        most: int,
        window: float,
        room: int,
        watcher: Watcher | None = None,
    ) -> None:
        """Nothing runs before `start`."""
        self._work, self._most, self._window, self._room = work, most, window, room
        self._watcher = watcher or Watcher()
        self._waiting: list[_Place] = []
        self._clock = 0
        self._seconds = 0.05  # a sentence, a running mean
        self._changed = asyncio.Event()
        self._closed = False
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work, in the running event loop; after `close`, anew."""
        self._changed, self._closed = asyncio.Event(), False
        self._loop = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Take nothing more, finish what waits, stop."""
        self._closed = True
        self._changed.set()
        if self._loop is not None:
            await self._loop

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    def submit(
        self, items: Sequence[Item], settings: Hashable, lengths: Sequence[int]
    ) -> list[asyncio.Future[Answer]]:
        """Queue the items of a request, all or none of them.

        Args:
            items: The items.
            settings: Items with equal settings may share a batch.
            lengths: The length of each, so that a batch holds alike ones.

        Returns:
            A future for each item; one that is cancelled gives its place up.

        Raises:
            QueueFull: if there is no room for all of them.
            QueueClosed: if the server is about to stop.
        """
        if self._closed or self._loop is None:
            raise QueueClosed("the server is about to stop")
        if len(self._waiting) + len(items) > self._room:
            raise QueueFull(max(1, math.ceil(self._seconds * len(self._waiting))))
        loop, now = asyncio.get_running_loop(), time.monotonic()
        places = [
            _Place(item, settings, length, self._clock + number, now, loop.create_future())
            for number, (item, length) in enumerate(zip(items, lengths, strict=True))
        ]
        for place in places:
            place.future.add_done_callback(lambda _, place=place: self._free(place))
        self._waiting += places
        self._tell()
        return [place.future for place in places]

    def _free(self, place: _Place) -> None:
        """Take a place out that nobody waits for any more; one that was answered is out already."""
        if place.future.cancelled() and place in self._waiting:
            self._waiting.remove(place)
            self._watcher.freed(1)
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._watcher.waiting(len(self._waiting))

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
            await self._gather()
            chosen = self._choose()
            if not chosen:
                continue  # all of them went away while others were awaited
            started = time.monotonic()
            items = [place.item for place in chosen]
            try:
                answers = await loop.run_in_executor(thread, self._work, chosen[0].settings, items)
            except Exception as error:  # whatever it is, nobody may wait for ever, and the queue goes on
                answers = [error] * len(chosen)
            seconds = time.monotonic() - started
            self._seconds += 0.2 * (seconds / len(chosen) - self._seconds)
            self._watcher.batch(len(chosen), [started - place.since for place in chosen], seconds)
            for place, answer in zip(chosen, answers, strict=True):
                if place.future.done():
                    continue
                if isinstance(answer, Exception):
                    place.future.set_exception(answer)
                else:
                    place.future.set_result(answer)

    async def _gather(self) -> None:
        """Wait for the window to pass without another item, or for a full batch.

        Items that came while the thread worked wait too, from when it is free: those who were just answered
        ask again right then, and with them a batch is whole. Else users part into halves that wait for each
        other.
        """
        free = time.monotonic()
        while self._waiting and len(self._waiting) < self._most and not self._closed:
            came = [max(place.since, free) for place in self._waiting]
            end = min(min(came) + PATIENCE * self._window, max(came) + self._window)
            left = end - time.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _choose(self) -> list[_Place]:
        """The items of the next batch, longest first; they wait no more."""
        order = sorted(self._waiting, key=lambda place: (place.due, place.since))
        if not order:
            return []
        alike = [place for place in order if place.settings == order[0].settings][: self._most]
        self._clock = max(self._clock, alike[-1].due)
        taken = set(map(id, alike))
        self._waiting = [place for place in self._waiting if id(place) not in taken]
        self._watcher.waiting(len(self._waiting))
        return sorted(alike, key=lambda place: -place.length)
