"""Where requests meet models: each model's queue, a request's time limit, a client that goes away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from regard.errors import RegardError
from regard.server.batcher import Batcher, QueueClosed, QueueFull
from regard.server.config import ServeConfig
from regard.server.engine import Engine
from regard.server.metrics import Metrics, QueueMetrics
from regard.server.refusal import Refusal

__all__ = ["ClientGone", "Desk", "answers", "as_they_come", "attend"]

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Desk:
    """The models that are served, each with its queue.

    Args:
        engines: The models, the first one is what requests get that name none.
        config: The limits.
        metrics: What is counted.
    """

    def __init__(self, engines: Sequence[Engine], config: ServeConfig, metrics: Metrics) -> None:
        """Make the queues; they do not run yet."""
        self.engines = {engine.name: engine for engine in engines}
        self.queues: dict[str, Batcher[Any, dict[str, Any]]] = {
            engine.name: Batcher(
                engine.work,
                config.batch,
                config.window / 1000,
                config.queue,
                QueueMetrics(metrics, engine.name),
            )
            for engine in engines
        }

    def start(self) -> None:
        """Begin to work."""
        for queue in self.queues.values():
            queue.start()

    async def close(self) -> None:
        """Finish what waits."""
        for queue in self.queues.values():
            await queue.close()

    @property
    def waiting(self) -> int:
        """Sentences in the queues."""
        return sum(queue.waiting for queue in self.queues.values())

    def engine(self, name: str | None) -> Engine:
        """A model by its name; none: the first.

        Raises:
            Refusal: if there is none of this name.
        """
        if name is None:
            return next(iter(self.engines.values()))
        if name not in self.engines:
            known = ", ".join(map(repr, self.engines))
            raise Refusal(404, f"model {name[:100]!r} is not served here; these are: {known}")
        return self.engines[name]

    def submit(
        self, engine: Engine, settings: Any, jobs: Sequence[Any], lengths: Sequence[int]
    ) -> list[asyncio.Future[dict[str, Any]]]:
        """Put the sentences of a request into the queue of a model.

        Raises:
            Refusal: if there is no room for them, or the server is about to stop.
        """
        try:
            return self.queues[engine.name].submit(jobs, settings, lengths)
        except QueueFull as full:
            raise Refusal(429, str(full), {"Retry-After": str(full.seconds)}) from None
        except QueueClosed as closed:
            raise Refusal(503, str(closed), {"Retry-After": "5"}) from None


async def answers(futures: Sequence[asyncio.Future[T]]) -> list[T]:
    """All answers; the first one's mistake if there is one, with the sentence's number.

    Raises:
        Refusal: for a mistake of the user's.
    """
    try:
        found = await asyncio.gather(*futures, return_exceptions=True)
    finally:
        for future in futures:
            future.cancel()
    answered: list[T] = []
    for number, one in enumerate(found, 1):
        if isinstance(one, RegardError):
            raise Refusal(422, f"sentence {number}: {one}")
        if isinstance(one, BaseException):
            raise one
        answered.append(one)
    return answered


async def attend(request: Request, work: Awaitable[T], seconds: float) -> T:
    """Wait for an answer, no longer than is allowed and only as long as the client does.

    Args:
        request: Its client is watched.
        work: The answer; cancelled when nobody waits for it.
        seconds: How long it may take.

    Raises:
        Refusal: when the time is over.
        ClientGone: when the client is.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if watch.done():
            raise ClientGone
        raise Refusal(504, f"the answer took longer than {seconds:g} s")
    finally:
        task.cancel()
        watch.cancel()


async def _gone(request: Request) -> None:
    """Come back when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def as_they_come(
    request: Request, futures: Sequence[asyncio.Future[T]], seconds: float
) -> AsyncIterator[tuple[int, T | Exception]]:
    """Answers as they come, with their places; mistakes among them.

    Ends early, freeing the places of what waits still, when the client goes away; when time is over, each
    answer that is missing is a `Refusal`.
    """
    places = {future: place for place, future in enumerate(futures)}
    waiting: set[asyncio.Future[T]] = set(futures)
    watch: asyncio.Future[None] = asyncio.ensure_future(_gone(request))
    end = asyncio.get_running_loop().time() + seconds
    try:
        while waiting:
            left = end - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(
                {*waiting, watch}, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED
            )
            if watch in done:
                return
            for future in sorted(waiting & done, key=places.__getitem__):
                waiting.discard(future)
                try:
                    answer: T | Exception = future.result()
                except Exception as error:  # is the answer: what went wrong with this sentence alone
                    answer = error
                yield places[future], answer
            if not done:
                for future in sorted(waiting, key=places.__getitem__):
                    yield places[future], Refusal(504, f"the answer took longer than {seconds:g} s")
                return
    finally:
        watch.cancel()
        for future in futures:
            future.cancel()
