"""Run the application with uvicorn until it receives a signal to stop."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import uvicorn

from regard.config.cpu_threads import num_available_cpus
from regard.config.extensions import require_hook
from regard.errors import UsageError
from regard.extensions.serve.config import ServeConfig

__all__ = ["run_server", "serve_models"]

_CACHE_CAPACITY = 128
"""Capacity of oneDNN's cache of compiled kernels, in kernels. A larger cache was not faster."""

_SHUTDOWN_GRACE_SECONDS = 5
"""Additional time in seconds, beyond the time limit, for running requests when the server stops."""


def serve_models(
    models: Sequence[Path | str],
    *,
    config: ServeConfig | None = None,
    checker: Path | str | None = None,
    detector: str | None = None,
    precision: Literal["float32", "bfloat16"] = "float32",
    device: str = "auto",
    on_ready: Callable[[str], None] = lambda message: None,
    **attention: Any,
) -> None:
    """Serve models until SIGTERM or Ctrl-C.

    Args:
        models: Model directories. The web page can compare two models.
        config: The settings of the server.
        checker: Directory of a model of good translations (`regard check --save-checker`).
        detector: Detector: combined (calibrated probabilities of all errors), length, repetition, or one of a
            plugin. length and repetition need no model. Default: combined, with --checker.
        precision: Number format of matrix multiplications; bfloat16 is faster on recent GPUs.
        device: Device: auto (a GPU if available), cpu, cuda or cuda:N.
        on_ready: Function that is called with the names of the models and the URL of the server.
        attention: `map`, `layer` and `head` of the attention in answers.

    Raises:
        UsageError: if an option is wrong, or the server cannot listen on the address.
        DataError: if the checker cannot be read.
        CheckpointError: if a model directory is missing or damaged.
    """
    config = config or ServeConfig()
    _limit_kernel_caches(len(models))
    # PyTorch reads these limits when it is imported.
    from regard.extensions.serve.app import create_app
    from regard.extensions.serve.engine import load_engines
    from regard.runs.device import set_num_threads

    # Use half of the processors and leave the other half for requests. Matrix multiplications that wait for a
    # busy processor are much slower than with fewer threads.
    set_num_threads(config.num_threads or max(1, num_available_cpus() // 2))
    check = None
    if checker is not None or detector is not None:
        check = require_hook("served_check", "check").load(checker, detector or "combined")
    engines = load_engines(
        [Path(model) for model in models],
        device,
        precision,
        attention,
        batch_size=config.batch_size,
        max_words=config.max_words,
        max_beam_size=config.max_beam_size,
    )
    names = ", ".join(engine.name for engine in engines)
    run_server(create_app(engines, config, check), config, lambda address: on_ready(f"{names}: {address}"))


def _limit_kernel_caches(num_models: int) -> None:
    """Set the capacity of the caches of compiled kernels, before PyTorch is used."""
    # oneDNN compiles a kernel for each shape. Batches shrink as sentences end, so a server sees hundreds of
    # shapes again and again and needs a larger cache than training. PyTorch has another cache of descriptions
    # and buffers per thread, that is, per model. With a capacity of 1024, these caches would use more and
    # more memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_CACHE_CAPACITY))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(max(_CACHE_CAPACITY // num_models, 16)))


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
