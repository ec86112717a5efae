"""How many connections there may be, and how long one may ask for nothing.

uvicorn waits for ever for the head of a first request, and accepts connections until the process may open no
more files. Here a head has a few seconds, and where there is no room for a connection the one that has waited
longest for its client goes; a request that is being answered is never broken off for another.
"""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.config import ServeConfig

__all__ = ["BACKLOG", "Door", "OncePerSecond", "connection_class", "most_connections"]

BACKLOG = 128
"""The most connections that wait to be accepted."""
_OWN_FILES = 32
"""Files that the server may open beside its connections, and those it has."""
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


def most_connections(wanted: int) -> tuple[int, int]:
    """How many connections there may be, and how many may wait to be accepted, within the files to be opened.

    Args:
        wanted: What a user wants.
    """
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):  # a system without this limit
        return wanted, BACKLOG
    if files == resource.RLIM_INFINITY:
        return wanted, BACKLOG
    # As many as may wait are accepted at once, and again before the first of them can be turned away.
    backlog = min(BACKLOG, max(files // 8, 1))
    return max(min(wanted, files - used - _OWN_FILES - 3 * backlog), 1), backlog


class OncePerSecond(logging.Filter):
    """Lets a message pass once in a second, and says of the next how many were left out.

    What it is told to be about (a traceback of a lack of files) is in a line.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was said yet."""
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[Any, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message passes."""
        error = record.exc_info[1] if record.exc_info else None
        key = record.name, str(record.msg)[:80], type(error)
        now = self._clock()
        since, left_out = self._said.get(key, (-1.0, 0))
        if 0 <= now - since < 1:
            self._said[key] = since, left_out + 1
            return False
        if len(self._said) > 100:
            self._said.clear()
        self._said[key] = now, 0
        message = record.getMessage()
        if isinstance(error, OSError) and error.errno in _NO_FILES:
            message, record.exc_info = f"{message.splitlines()[0]}: {error.strerror}", None
        if left_out:
            message += f" ({left_out} more like it before)"
        record.msg, record.args = message, None
        return True


class Door:
    """The connections that are open, and those of them that wait for their client.

    Args:
        most: The most connections.
        seconds: How long a request's head may take, and how long an answer may wait to be read.
    """

    def __init__(self, most: int, seconds: float) -> None:
        """Nobody is there."""
        self.most, self.seconds = most, seconds
        self.open: set[_Connection] = set()
        self._waiting: dict[_Connection, asyncio.TimerHandle] = {}  # those that waited longest first

    def enter(self, one: "_Connection") -> bool:
        """Take a connection in; false where there is no room for it."""
        if len(self.open) >= self.most:
            if not self._waiting:
                _log.warning("a connection was refused: all %d are being answered", self.most)
                return False
            _log.warning("connections are closed whose client sends nothing: %d are open", self.most)
            self._drop(next(iter(self._waiting)))
        self.open.add(one)
        self.wait(one)
        return True

    def wait(self, one: "_Connection") -> None:
        """A connection waits for its client from now on."""
        self.work(one)
        self._waiting[one] = one.loop.call_later(self.seconds, self._late, one)

    def work(self, one: "_Connection") -> None:
        """A connection waits no more."""
        timer = self._waiting.pop(one, None)
        if timer is not None:
            timer.cancel()

    def leave(self, one: "_Connection") -> None:
        """A connection is closed."""
        self.work(one)
        self.open.discard(one)

    def _late(self, one: "_Connection") -> None:
        if one.heard:
            _log.warning("a connection was closed: its request's head did not come within %g s", self.seconds)
        self._drop(one)

    def _drop(self, one: "_Connection") -> None:
        self.leave(one)
        one.end(408, "the request's head did not come in time" if one.heard else None)


class _Connection(H11Protocol):
    """uvicorn's connection, which tells a door what it does.

    Of uvicorn's own (0.30 to 0.54) it reads `cycle`, the request that is being answered, and
    `cycle.response_complete`; tests/server/test_connections.py fails should they change.
    """

    door: Door
    heard = False  # whether a part of a request's head has come
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.door.enter(self):
            self.end(503, "there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.leave(self)
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.heard = True
        super().data_received(data)
        self._tell()

    def on_response_complete(self) -> None:
        self.heard = False
        super().on_response_complete()
        if self in self.door.open and not self._is_answering():
            self.door.wait(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_read()
        self._watch_reading()

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _watch_reading(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.door.seconds, self._not_read, left)

    def _not_read(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:  # slowly, but it reads
            self._watch_reading()
            return
        _log.warning("a connection was closed: its client did not read for %g s", self.door.seconds)
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _tell(self) -> None:
        if self._is_answering():
            self.door.work(self)

    def end(self, status: int, why: str | None) -> None:
        """Close, with an answer where there is something to say."""
        if self.transport.is_closing():
            return
        if why is not None:
            phrase = {408: "Request Timeout", 503: "Service Unavailable"}[status]
            body = f'{{"error":"{why}"}}'
            self.transport.write(
                f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        self.transport.close()


def connection_class(config: ServeConfig) -> tuple[type[H11Protocol], int]:
    """The class of a server's connections, and how many may wait to be accepted."""
    most, backlog = most_connections(config.connections)
    if most < config.connections:
        _log.info("at most %d connections: the process may open no more files (ulimit -n)", most)
    return type("Connection", (_Connection,), {"door": Door(most, config.head)}), backlog
