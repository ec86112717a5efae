"""Queues of sentences, with dynamic batching, time limits, and cancellation when a client disconnects.

Sentences of different requests are translated together by one thread per model. A batch contains sentences
with the same settings. It starts when it is full, when no further sentence has arrived for the length of the
window, or when four windows have passed since the thread was free and the first sentence had arrived. The
last rule keeps clients together that were answered in one batch and send their next requests shortly after
each other. While the thread works, the queue collects the next batch.

The order is fair between requests: the due time of a sentence is the clock of the queue plus the position of
the sentence in its request (start-time fair queueing, Goyal et al., 1996). A long text therefore does not
delay a single sentence of another client.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from regard.errors import RegardError
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import ModelServer

MAX_WINDOWS = 4
Answer = TypeVar("Answer")


@dataclass(eq=False)
class _QueueItem:
    """An item in the queue, with its due time, its arrival time in seconds and the future of its answer."""

    item: Any
    settings: Hashable
    length: int
    due: int
    since: float
    future: asyncio.Future[Any]


class Batcher:
    """Collects items into batches and processes them in a separate thread.

    Args:
        work: Function from settings and items to an answer or an exception for each item.
        max_batch_size: Maximum number of items in a batch.
        window: Time in seconds that a batch waits for another item; `MAX_WINDOWS` times this in total.
        max_waiting: Maximum number of waiting items.

    Attributes:
        waiting: The items in the queue.
    """

    def __init__(
        self,
        work: Callable[[Any, Sequence[Any]], Sequence[Any]],
        max_batch_size: int,
        window: float,
        max_waiting: int,
    ) -> None:
        """Create an empty queue; `start` starts processing."""
        self._work, self._max_batch_size = work, max_batch_size
        self._window, self._max_waiting = window, max_waiting
        self.waiting: list[_QueueItem] = []
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

    def submit(
        self, items: Sequence[Any], settings: Hashable, lengths: Sequence[int]
    ) -> list[asyncio.Future[Any]]:
        """Queue the items of a request, either all or none of them.

        Args:
            items: The items.
            settings: Items with equal settings may share a batch.
            lengths: The length of each item; a batch is sorted by length.

        Returns:
            A future for each item. Its `cancel` removes the item from the queue.

        Raises:
            HTTPException: if the queue has no room for all items, or the server is shutting down.
        """
        if self._closed or self._loop is None:
            raise HTTPException(503, "the server is shutting down", {"Retry-After": "5"})
        if len(self.waiting) + len(items) > self._max_waiting:
            # The time to process the whole queue is an upper estimate of the time until it has room.
            seconds = max(1, math.ceil(self._seconds * len(self.waiting)))
            message = f"too many sentences are waiting: try again in {seconds} s"
            raise HTTPException(429, message, {"Retry-After": str(seconds)})
        loop, now = asyncio.get_running_loop(), time.monotonic()
        places = [
            _QueueItem(item, settings, length, self._clock + number, now, loop.create_future())
            for number, (item, length) in enumerate(zip(items, lengths, strict=True))
        ]

        def remove_canceled(future: asyncio.Future[Any]) -> None:
            # Items of a started batch have been removed already.
            if future.cancelled():
                self.waiting = [place for place in self.waiting if place.future is not future]
                self._changed.set()

        for place in places:
            place.future.add_done_callback(remove_canceled)
        self.waiting += places
        self._changed.set()
        return [place.future for place in places]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="regard-batch") as thread:
            while self.waiting or not self._closed:
                if not self.waiting:
                    self._changed.clear()
                    await self._changed.wait()
                    continue
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
        while self.waiting and len(self.waiting) < self._max_batch_size and not self._closed:
            came = [max(place.since, free) for place in self.waiting]
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
        order = sorted(self.waiting, key=lambda place: (place.due, place.since))
        if not order:
            return []
        alike = [place for place in order if place.settings == order[0].settings][: self._max_batch_size]
        # The clock advances to the latest due time in the batch. New requests start from there, so that
        # requests that are already waiting keep their precedence.
        self._clock = max(self._clock, alike[-1].due)
        self.waiting = [place for place in self.waiting if place not in alike]
        return sorted(alike, key=lambda place: -place.length)


class Engine(Protocol):
    """A part that processes batches of sentences, such as a model."""

    name: str

    def process_batch(self, settings: Any, jobs: Sequence[Any]) -> Sequence[Any]:
        """Return the answer, or the error, of each sentence of a batch."""
        ...


class Dispatcher:
    """The served models, each with its queue, and the detectors with another one.

    Args:
        engines: The models; the first is the default for requests that name no model.
        config: The limits.
        checker: The detectors of errors. None if translations cannot be checked.
    """

    def __init__(
        self, engines: Sequence[ModelServer], config: ServeConfig, checker: Engine | None = None
    ) -> None:
        """Create the queues, by the names of the models and of the detectors."""
        self.engines = {engine.name: engine for engine in engines}
        parts: list[Engine] = [*engines, *([] if checker is None else [checker])]
        self.queues: dict[str, Batcher] = {
            engine.name: Batcher(
                engine.process_batch,
                config.batch_size,
                config.batch_window / 1000,
                config.max_queued_sentences,
            )
            for engine in parts
        }

    def engine(self, name: str | None) -> ModelServer:
        """Return a model by its name.

        Args:
            name: Name of the model. None for the first model.

        Raises:
            HTTPException: if there is no model of this name.
        """
        if name is None:
            return next(iter(self.engines.values()))
        if name not in self.engines:
            known = ", ".join(map(repr, self.engines))
            raise HTTPException(404, f"model {name[:100]!r} is not served; the served models are: {known}")
        return self.engines[name]


async def collect_answers(
    request: Request, futures: Sequence[asyncio.Future[Answer]], seconds: float
) -> list[Answer]:
    """Return all answers; cancel them after the time limit or when the client disconnects.

    Raises:
        HTTPException: if the time limit is exceeded, or for the first sentence with a user error, with its
            number.
        ClientDisconnect: if the client disconnects.
    """

    async def disconnection() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    # ASGI reports a disconnection as a message, so another task must wait for messages in the meantime.
    watch = asyncio.ensure_future(disconnection())
    gathered = asyncio.gather(*futures, return_exceptions=True)
    try:
        await asyncio.wait({gathered, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not gathered.done():
            if watch.done():
                raise ClientDisconnect
            raise HTTPException(504, f"the answer took longer than {seconds:g} s")
    finally:
        watch.cancel()
        # Canceled futures leave the queue, so that the engine does no work for a request that has ended.
        for future in futures:
            future.cancel()
    answers: list[Answer] = []
    for number, answer in enumerate(gathered.result(), 1):
        if isinstance(answer, RegardError):
            raise HTTPException(422, f"sentence {number}: {answer}")
        if isinstance(answer, BaseException):
            raise answer
        answers.append(answer)
    return answers


async def stream_answers(
    futures: Sequence[asyncio.Future[Answer]], seconds: float
) -> AsyncIterator[tuple[int, Answer | BaseException]]:
    """Yield answers, or errors, with their indices as soon as they are available.

    If the time limit is exceeded, it yields an `HTTPException` for each missing answer. If it is closed,
    because the client has disconnected, it cancels the missing answers.
    """
    places = {future: place for place, future in enumerate(futures)}
    waiting: set[asyncio.Future[Answer]] = set(futures)
    end = time.monotonic() + seconds
    try:
        while waiting:
            left = max(end - time.monotonic(), 0)
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            # Sets have no order; answers of one batch are yielded in the order of the sentences.
            for future in sorted(done, key=places.__getitem__):
                yield places[future], future.exception() or future.result()
            if not done:
                for future in sorted(waiting, key=places.__getitem__):
                    yield places[future], HTTPException(504, f"the answer took longer than {seconds:g} s")
                return
    finally:
        for future in futures:
            future.cancel()
