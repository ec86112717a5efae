"""Limit the number of connections and the time that a connection may be idle.

uvicorn waits without limit for the head of a first request, and accepts connections until the process reaches
its limit of open files. Here the head of a request must arrive within a few seconds. If the number of
connections is at its maximum, the connection that has been idle longest is closed for a new one; a request in
progress is never interrupted.
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

__all__ = ["BACKLOG", "ConnectionLimiter", "RateLimitFilter", "connection_class", "most_connections"]

BACKLOG = 128
"""Maximum number of connections that wait to be accepted (the backlog of the socket)."""
_OWN_FILES = 32
"""Number of files reserved for the server, in addition to its connections and its open files."""
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


def most_connections(wanted: int) -> tuple[int, int]:
    """Return the maximum number of connections and the backlog that the limit of open files permits.

    Args:
        wanted: The configured maximum number of connections.
    """
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):  # a system without this limit
        return wanted, BACKLOG
    if files == resource.RLIM_INFINITY:
        return wanted, BACKLOG
    # Reserve files for connections that are accepted only to be rejected: a full backlog is accepted at once,
    # and further ones before the first of them is closed.
    backlog = min(BACKLOG, max(files // 8, 1))
    return max(min(wanted, files - used - _OWN_FILES - 3 * backlog), 1), backlog


class RateLimitFilter(logging.Filter):
    """A logging filter that passes each message once per second and counts the suppressed ones.

    The traceback of an error about too many open files is reduced to one line.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without any message."""
        super().__init__()
        self._clock = clock
        self._last_passed: dict[tuple[Any, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message passes; add the number of suppressed messages to it."""
        error = record.exc_info[1] if record.exc_info else None
        key = record.name, str(record.msg)[:80], type(error)
        now = self._clock()
        since, left_out = self._last_passed.get(key, (-1.0, 0))
        if 0 <= now - since < 1:
            self._last_passed[key] = since, left_out + 1
            return False
        # Bound the memory: messages that contain changing text would fill the table.
        if len(self._last_passed) > 100:
            self._last_passed.clear()
        self._last_passed[key] = now, 0
        message = record.getMessage()
        # The limit of open files is a known condition; its traceback is of no use.
        if isinstance(error, OSError) and error.errno in _NO_FILES:
            message, record.exc_info = f"{message.splitlines()[0]}: {error.strerror}", None
        if left_out:
            message += f" ({left_out} similar messages suppressed)"
        record.msg, record.args = message, None
        return True


class ConnectionLimiter:
    """The open connections, and those among them that are idle.

    Args:
        most: Maximum number of connections.
        seconds: Maximum time in seconds to receive the head of a request, and for a client to read an answer.
    """

    def __init__(self, most: int, seconds: float) -> None:
        """Start without connections."""
        self.max_connections, self.seconds = most, seconds
        self.open: set[_Connection] = set()
        self._waiting: dict[_Connection, asyncio.TimerHandle] = {}  # in order of idle time, longest first

    def add(self, one: "_Connection") -> bool:
        """Add a connection and return true, or return false if all connections are busy."""
        if len(self.open) >= self.max_connections:
            if not self._waiting:
                _log.warning("a connection was rejected: all %d connections are busy", self.max_connections)
                return False
            _log.warning("closing the longest idle connection: %d connections are open", self.max_connections)
            self._drop(next(iter(self._waiting)))
        self.open.add(one)
        self.mark_idle(one)
        return True

    def mark_idle(self, one: "_Connection") -> None:
        """Mark a connection as idle and start its timer."""
        self.mark_busy(one)
        self._waiting[one] = one.loop.call_later(self.seconds, self._head_timed_out, one)

    def mark_busy(self, one: "_Connection") -> None:
        """Mark a connection as busy and stop its timer."""
        timer = self._waiting.pop(one, None)
        if timer is not None:
            timer.cancel()

    def remove(self, one: "_Connection") -> None:
        """Remove a closed connection."""
        self.mark_busy(one)
        self.open.discard(one)

    def _head_timed_out(self, one: "_Connection") -> None:
        if one.head_started:
            _log.warning("a connection was closed: no complete request head within %g s", self.seconds)
        self._drop(one)

    def _drop(self, one: "_Connection") -> None:
        self.remove(one)
        one.end(408, "the head of the request was not received in time" if one.head_started else None)


class _Connection(H11Protocol):
    """A connection of uvicorn that reports its state to a limiter.

    It uses two internal attributes of uvicorn (0.30 to 0.54): `cycle`, the request in progress, and
    `cycle.response_complete`. tests/server/test_connections.py fails if they change.
    """

    limiter: ConnectionLimiter
    head_started = False  # whether a part of the head of a request has been received
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.limiter.add(self):
            self.end(503, "the server has too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self.limiter.remove(self)
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A rejected connection may still deliver data before it is closed.
        if self.transport.is_closing():
            return
        self.head_started = True
        super().data_received(data)
        self._update_state()

    def on_response_complete(self) -> None:
        self.head_started = False
        super().on_response_complete()
        if self in self.limiter.open and not self._is_answering():
            self.limiter.mark_idle(self)

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
        self._unread = self.loop.call_later(self.limiter.seconds, self._not_read, left)

    def _not_read(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:  # the client reads slowly
            self._watch_reading()
            return
        _log.warning("a connection was closed: its client read nothing for %g s", self.limiter.seconds)
        # `close` would wait until the client has read the rest.
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _update_state(self) -> None:
        if self._is_answering():
            self.limiter.mark_busy(self)

    def end(self, status: int, why: str | None) -> None:
        """Close the connection, after an error response if there is a reason to report."""
        if self.transport.is_closing():
            return
        # Written directly, because there is no complete request that uvicorn could answer.
        if why is not None:
            phrase = {408: "Request Timeout", 503: "Service Unavailable"}[status]
            body = f'{{"error":"{why}"}}'
            self.transport.write(
                f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        self.transport.close()


def connection_class(config: ServeConfig) -> tuple[type[H11Protocol], int]:
    """Return the connection class of a server and its backlog."""
    most, backlog = most_connections(config.max_connections)
    if most < config.max_connections:
        _log.info("at most %d connections, because of the limit of open files (ulimit -n)", most)
    return type("Connection", (_Connection,), {"limiter": ConnectionLimiter(most, config.header_timeout)}), backlog
