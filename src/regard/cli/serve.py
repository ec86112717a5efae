"""`regard serve`: serve models with a web page and a JSON API."""

import os
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption
from regard.cli.common_options import (
    DeviceOption,
    PrecisionOption,
)
from regard.errors import UsageError

__all__ = ["serve"]

_CACHE_CAPACITY = 128
"""Capacity of oneDNN's cache of compiled kernels, in kernels. A larger cache was not faster."""


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directories. The web page can compare two models.", show_default=False),
    ],
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Default: 127.0.0.1, which only this machine can reach."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on. 0 chooses a free port. Default: 8000.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of web pages that may use the API, for example https://example.org. * allows all "
            "origins. The option may be repeated.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Additional host name of the server, for example translate.example.org. * allows all host "
            "names. The option may be repeated.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Setting of the server, as key=value, for example batch_window=8 or max_words=300. All "
            "settings are listed above.",
            show_default=False,
        ),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: Annotated[
        int | None,
        typer.Option(
            help="Number of CPU threads per model. Default: half of the processors.", min=1, max=1_024
        ),
    ] = None,
) -> None:
    """Serve models with a web page for translation and interactive attention maps, and with a JSON API.

    The web page is at /, the description of the API at /openapi.json. Ctrl-C or SIGTERM stops the server
    after the running requests are finished. Settings of --set: batch_window (time to wait for more sentences
    of a batch, in milliseconds), batch_size (maximum number of sentences in a batch), max_queued_sentences
    (maximum number of waiting sentences), request_timeout (time limit of a request, in seconds),
    max_request_bytes (maximum size of a request), max_characters and max_sentences (maximum numbers per
    request), max_words (maximum number of words in a sentence), max_beam_size, max_connections (maximum
    number of open connections) and header_timeout (time limit for the head of a request, in seconds).

    Example: regard serve runs/first runs/second --port 8080
    """
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"regard serve needs {', '.join(missing)}. Install the packages with: pip install 'regard[serve]'"
        )

    from regard.config import apply_override, from_dict
    from regard.cpu_threads import num_available_cpus
    from regard.server.config import ServeConfig

    data: dict[str, object] = {
        "host": host,
        "port": port,
        "allow_origins": allow_origin or None,
        "allow_hosts": allow_host or None,
    }
    for setting in settings or []:
        apply_override(data, setting)
    given = {key: value for key, value in data.items() if value is not None}
    config = from_dict(ServeConfig, given, origin="settings of regard serve")

    from regard.server.app import create_app
    from regard.server.engine import load_engines
    from regard.server.run import run_server
    from regard.training.device import set_num_threads

    # oneDNN compiles a kernel for each shape. Batches shrink as sentences end, so a server sees hundreds of
    # shapes again and again and needs a larger cache than training. PyTorch has another cache of descriptions
    # and buffers per thread, that is, per model. With a capacity of 1024, these caches would use more and
    # more memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_CACHE_CAPACITY))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(max(_CACHE_CAPACITY // len(models), 16)))
    # Use half of the processors and leave the other half for requests. Matrix multiplications that wait for a
    # busy processor are much slower than with fewer threads.
    set_num_threads(num_threads or max(1, num_available_cpus() // 2))
    engines = load_engines(
        models,
        device,
        precision,
        {"layer": layer, "head": head, "shift": shift},
        batch_size=config.batch_size,
        max_words=config.max_words,
        max_beam_size=config.max_beam_size,
    )
    app = create_app(engines, config)

    def ready(address: str) -> None:
        names = ", ".join(engine.name for engine in engines)
        typer.echo(f"{names}: {address}", err=True)

    run_server(app, config, ready)
