"""Dispatch requests to queues of models and detectors, with time limits, and cancellation on disconnect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from regard.errors import RegardError
from regard.extensions.serve.batcher import Batcher, QueueClosedError, QueueFullError
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import ModelServer, PairJob
from regard.extensions.serve.errors import ClientDisconnectedError, RequestError
from regard.extensions.serve.schemas import SentencePair
from regard.extensions.serve.validation import check_lines
from regard.text.words import normalize_whitespace

__all__ = [
    "CheckEngine",
    "Dispatcher",
    "Engine",
    "gather_answers",
    "pair_jobs",
    "stream_answers",
    "wait_for_answer",
]

_T = TypeVar("_T")


class Engine(Protocol):
    """A part that processes batches of sentences, such as a model."""

    name: str

    def process_batch(self, settings: Any, jobs: Sequence[Any]) -> Sequence[Any]:
        """Return the answer, or the error, of each sentence of a batch."""
        ...


class CheckEngine(Engine, Protocol):
    """The detectors of errors in translations, which an extension provides."""

    def describe(self) -> dict[str, Any]:
        """Return the facts about the detectors for `GET /models`."""
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
        """Create the queues; `start` starts them."""
        self.engines = {engine.name: engine for engine in engines}
        parts: list[Engine] = [*engines, *([] if checker is None else [checker])]
        self.queues: dict[str, Batcher[Any, Any]] = {
            engine.name: Batcher(
                engine.process_batch,
                config.batch_size,
                config.batch_window / 1000,
                config.max_queued_sentences,
            )
            for engine in parts
        }

    def start(self) -> None:
        """Start all queues."""
        for queue in self.queues.values():
            queue.start()

    async def close(self) -> None:
        """Process all waiting sentences, and stop the queues."""
        for queue in self.queues.values():
            await queue.close()

    @property
    def waiting(self) -> int:
        """The number of sentences in all queues."""
        return sum(queue.waiting for queue in self.queues.values())

    def engine(self, name: str | None) -> ModelServer:
        """Return a model by its name.

        Args:
            name: Name of the model. None for the first model.

        Raises:
            RequestError: if there is no model of this name.
        """
        if name is None:
            return next(iter(self.engines.values()))
        if name not in self.engines:
            known = ", ".join(map(repr, self.engines))
            raise RequestError(404, f"model {name[:100]!r} is not served; the served models are: {known}")
        return self.engines[name]

    def submit(
        self, engine: Engine, settings: Any, jobs: Sequence[Any], lengths: Sequence[int]
    ) -> list[asyncio.Future[Any]]:
        """Put the sentences of a request into the queue of an engine, and return their futures.

        Raises:
            RequestError: if the queue has no room, or the server is shutting down.
        """
        try:
            return self.queues[engine.name].submit(jobs, settings, lengths)
        except QueueFullError as full:
            raise RequestError(429, str(full), {"Retry-After": str(full.retry_after)}) from None
        except QueueClosedError as closed:
            raise RequestError(503, str(closed), {"Retry-After": "5"}) from None


def pair_jobs(pairs: Sequence[SentencePair], config: ServeConfig) -> list[PairJob]:
    """Return sentences and their translations, with single spaces between words.

    Raises:
        RequestError: if a limit is exceeded.
    """
    if len(pairs) > config.max_sentences:
        raise RequestError(422, f"{len(pairs)} pairs: a request may have at most {config.max_sentences}")
    check_lines([line for pair in pairs for line in (pair.source, pair.target)], config)
    return [PairJob(normalize_whitespace(pair.source), normalize_whitespace(pair.target)) for pair in pairs]


async def gather_answers(futures: Sequence[asyncio.Future[_T]]) -> list[_T]:
    """Return all answers; cancel the remaining ones if the caller is canceled.

    Raises:
        RequestError: for the first sentence with a user error, with the number of the sentence.
    """
    try:
        results = await asyncio.gather(*futures, return_exceptions=True)
    finally:
        # Canceled futures leave the queue, so that the engine does no work for a request that has ended.
        for future in futures:
            future.cancel()
    answered: list[_T] = []
    for number, result in enumerate(results, 1):
        if isinstance(result, RegardError):
            raise RequestError(422, f"sentence {number}: {result}")
        if isinstance(result, BaseException):
            raise result
        answered.append(result)
    return answered


async def wait_for_answer(request: Request, work: Awaitable[_T], seconds: float) -> _T:
    """Wait for an answer until the time limit or until the client disconnects; then cancel it.

    Args:
        request: The request of the client.
        work: The answer.
        seconds: Time limit in seconds.

    Raises:
        RequestError: if the time limit is exceeded.
        ClientDisconnected: if the client disconnects.
    """
    task = asyncio.ensure_future(work)
    # ASGI reports a disconnection as a message, so another task must wait for messages in the meantime.
    watch = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if watch.done():
            raise ClientDisconnectedError
        raise RequestError(504, f"the answer took longer than {seconds:g} s")
    finally:
        task.cancel()
        watch.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def stream_answers(
    request: Request, futures: Sequence[asyncio.Future[_T]], seconds: float
) -> AsyncIterator[tuple[int, _T | Exception]]:
    """Yield answers, or errors, with their indices as soon as they are available.

    If the client disconnects, the generator ends and cancels the remaining answers. If the time limit is
    exceeded, it yields a `RequestError` for each missing answer.

    Args:
        request: The request of the client.
        futures: The answers.
        seconds: Time limit in seconds.
    """
    places = {future: place for place, future in enumerate(futures)}
    waiting: set[asyncio.Future[_T]] = set(futures)
    watch: asyncio.Future[None] = asyncio.ensure_future(_wait_for_disconnect(request))
    end = asyncio.get_running_loop().time() + seconds
    try:
        while waiting:
            left = end - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(
                {*waiting, watch}, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED
            )
            if watch in done:
                return
            # Sets have no order; answers of one batch are yielded in the order of the sentences.
            for future in sorted(waiting & done, key=places.__getitem__):
                waiting.discard(future)
                try:
                    answer: _T | Exception = future.result()
                except Exception as error:  # the error of one sentence is its answer
                    answer = error
                yield places[future], answer
            if not done:
                for future in sorted(waiting, key=places.__getitem__):
                    yield places[future], RequestError(504, f"the answer took longer than {seconds:g} s")
                return
    finally:
        watch.cancel()
        for future in futures:
            future.cancel()
