"""Run the application until it receives a signal to stop."""

import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from regard.errors import UsageError
from regard.server.config import ServeConfig
from regard.server.connections import RateLimitFilter, connection_class

__all__ = ["run_server"]

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
        with _rate_limit_logs("asyncio", "uvicorn.error", "regard.server.connections"):
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
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
