"""Run the application with uvicorn until it receives a signal to stop."""

import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import uvicorn

from regard.api.loading import as_paths
from regard.config.cpu_threads import num_available_cpus
from regard.config.extensions import require_hook
from regard.errors import UsageError
from regard.extensions.serve.config import ServeConfig
from regard.text.paths import check_link

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
            Default: that in the directory of the first model, if there is one.
        detector: Detector: combined (calibrated probabilities of all errors), length, repetition, or one of a
            plugin. length and repetition need no model. Default: combined, with a checker.
        precision: Number format of matrix multiplications; bfloat16 is faster on recent GPUs.
        device: Device: auto (a GPU if available), cpu, cuda or cuda:N.
        on_ready: Function that is called with the names of the models and the URL of the server.
        attention: `map`, `layer` and `head` of the attention in answers.

    Raises:
        UsageError: if an option is wrong, or the server cannot listen on the address.
        DataError: if the checker cannot be read.
        CheckpointError: if a model directory is missing or damaged.
    """
    config, directories = config or ServeConfig(), as_paths(models)
    # oneDNN compiles a kernel for each shape. Batches shrink as sentences end, so a server sees hundreds of
    # shapes again and again and needs a larger cache than training. PyTorch has another cache of descriptions
    # and buffers per thread, that is, per model. With a capacity of 1024, these caches would use more and
    # more memory. PyTorch reads these limits when it is imported.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_CACHE_CAPACITY))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(max(_CACHE_CAPACITY // len(directories), 16)))
    from regard.extensions.serve.app import create_app
    from regard.extensions.serve.engine import load_engines
    from regard.runs.device import set_num_threads

    # Use half of the processors and leave the other half for requests. Matrix multiplications that wait for a
    # busy processor are much slower than with fewer threads.
    set_num_threads(config.num_threads or max(1, num_available_cpus() // 2))
    saved = directories[0] / "checker"  # of `regard report` and `regard quickstart`
    if checker is None and detector is None and saved.is_dir():
        checker = check_link(saved, saved.parent)
    check = None
    if checker is not None or detector is not None:
        check = require_hook("served_check", "check").load(checker, detector or "combined")
    engines = load_engines(directories, device, precision, attention, config)
    names = ", ".join(engine.name for engine in engines)
    run_server(create_app(engines, config, check), config, lambda address: on_ready(f"{names}: {address}"))


def run_server(app: Any, config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests.

    Args:
        app: The application.
        config: The settings, among them the address to listen on.
        ready: Callback with the URL of the server, once it accepts connections.

    Raises:
        UsageError: if the server cannot listen on the address.
    """
    settings = uvicorn.Config(
        app,
        ws="none",
        limit_concurrency=config.max_connections,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(config.request_timeout) + _SHUTDOWN_GRACE_SECONDS,
    )
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with ExitStack() as stack:
        try:
            # Connections wait until the server has started.
            listener = stack.enter_context(
                socket.create_server((config.host, config.port), family=family, backlog=settings.backlog)
            )
        except OSError as error:
            raise UsageError(
                f"cannot listen on {config.host} port {config.port}: {error.strerror}; choose another --host "
                "or --port (0 for a free one)"
            ) from None
        server = uvicorn.Server(settings)
        # At the end, uvicorn raises the signal again; without another handler, it would kill the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, server.handle_exit))
        host, port = listener.getsockname()[:2]
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        server.run(sockets=[listener])
