"""Run the application with uvicorn until it receives a signal to stop."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from regard.errors import UsageError
from regard.extensions.serve.config import ServeConfig

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
    server = _Server(
        uvicorn.Config(
            app,
            ws="none",
            limit_concurrency=config.max_connections,
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
        server.run()
    except SystemExit as error:  # uvicorn exits if the address is in use
        if error.code:
            raise UsageError(
                f"cannot listen on {config.host} port {config.port}: is the port in use? Choose another one, "
                "or --port 0 for a free port"
            ) from None


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
