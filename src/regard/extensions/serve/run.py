"""Run the application until it receives a signal to stop, with limits on its connections.

uvicorn waits without limit for the head of a first request, and accepts connections until the process reaches
its limit of open files. Here the head of a request must arrive within a few seconds. If the number of
connections is at its maximum, the connection that has been idle longest is closed for a new one; a request in
progress is never interrupted.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import UsageError
from regard.extensions.serve.config import ServeConfig

__all__ = [
    "BACKLOG",
    "ConnectionLimiter",
    "RateLimitFilter",
    "connection_class",
    "most_connections",
    "run_server",
]

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
    `cycle.response_complete`. tests/extensions/serve/test_run.py fails if they change.
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
    return type(
        "Connection", (_Connection,), {"limiter": ConnectionLimiter(most, config.header_timeout)}
    ), backlog


_SHUTDOWN_GRACE_SECONDS = 5
"""Additional time in seconds, beyond the time limit, for running requests when the server stops."""


def run_server(app: Any, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests.

    Args:
        app: The application.
        config: The settings, among them the address to listen on.
        ready: Callback with the URL of the server, once it accepts requests.

    Raises:
        UsageError: if the server cannot listen on the address.
    """
    connection, backlog = connection_class(config)
    server = _Server(
        uvicorn.Config(
            app,
            http=connection,
            ws="none",
            backlog=backlog,
            host=config.host,
            port=config.port,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(config.request_timeout) + _SHUTDOWN_GRACE_SECONDS,
        ),
        ready,
    )
    try:
        with _rate_limit_logs("asyncio", "uvicorn.error", "regard.extensions.serve.run"):
            server.run()
    except SystemExit as error:  # uvicorn exits if the address is in use
        if error.code:
            raise UsageError(
                f"cannot listen on {config.host} port {config.port}: is the port in use? Choose another one, "
                "or --port 0 for a free port"
            ) from None


@contextlib.contextmanager
def _rate_limit_logs(*names: str) -> Iterator[None]:
    """Limit loggers to one message of a kind per second, so that invalid requests do not fill the disk."""
    once = RateLimitFilter()
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)


class _Server(uvicorn.Server):
    """A server that calls back when it is ready, and returns normally after a signal to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own method raises the signal again at the end, as if the process had been killed.
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
