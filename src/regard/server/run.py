"""Running the application until somebody says that it is enough."""

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from regard.errors import UsageError
from regard.server.config import ServeConfig
from regard.server.connections import OncePerSecond, connection_class

__all__ = ["run"]

_GRACE = 5
"""Seconds that a running request gets beyond its time limit when the server stops."""


def run(app: Any, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; what is running then is finished.

    Args:
        app: The application.
        config: Where to listen.
        ready: Is called with the address once it can be used.

    Raises:
        UsageError: if the address cannot be listened on.
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
            timeout_graceful_shutdown=int(config.seconds) + _GRACE,
        ),
        ready,
    )
    # Translating takes the interpreter for milliseconds at a time; answering others shall not wait so long.
    sys.setswitchinterval(0.001)
    try:
        with _quiet("asyncio", "uvicorn.error", "regard.server.connections"):
            server.run()
    except SystemExit as error:  # uvicorn's answer to an address that is taken
        if error.code:
            raise UsageError(
                f"cannot listen on {config.host} port {config.port}: is it taken? --port 0 takes a free one"
            ) from None


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Let loggers say a thing once in a second: nonsense by the thousand shall not fill the disk."""
    once = OncePerSecond()
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)


class _Server(uvicorn.Server):
    """Says when it is ready, and takes a signal to stop as no failure."""

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
        # uvicorn's own raises the signal anew when all is done: the process would seem to be killed.
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
