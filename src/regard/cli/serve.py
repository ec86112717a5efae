"""`regard serve`: models as a web page and a JSON API."""

import os
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.alignment_options import HeadOption, LayerOption, ShiftOption
from regard.errors import UsageError

__all__ = ["serve"]

_SHAPES = 128
"""As many as are kept for one model: more were no faster."""


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model folders; the page compares them two by two.", show_default=False),
    ],
    host: Annotated[
        str | None, typer.Option(help="The address to listen on (default: 127.0.0.1, this machine alone).")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0: a free one (default: 8000).")] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin whose pages may use the API, as https://example.org; *: any.", show_default=False
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name that the server answers to beside its address, as translate.example.org; *: any.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another setting, as window=8, batch=64, words=300.", show_default=False),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (faster) or int8 (faster, CPU only).")
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto (a GPU if available), cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            help="Threads of a model on the CPU (default: half of the processors).", min=1, max=1_024
        ),
    ] = None,
) -> None:
    """Serve models as a web page, where attention can be seen and bent, and as a JSON API.

    The page is at /, the API's description at /openapi.json. Ctrl-C or SIGTERM stops it, once what is running
    is finished. Settings: window (milliseconds to wait for others), batch, queue, seconds, body, characters,
    sentences, words, beam, connections, head (seconds that a request's head may take).

    Example: regard serve runs/first runs/second --port 8080
    """
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"regard serve needs {', '.join(missing)}; install them with: pip install 'regard[serve]'"
        )

    from regard.config import from_dict, set_option
    from regard.processors import available_processors
    from regard.server.config import ServeConfig

    data: dict[str, object] = {
        "host": host,
        "port": port,
        "origins": allow_origin or None,
        "hosts": allow_host or None,
    }
    for setting in settings or []:
        set_option(data, setting)
    given = {key: value for key, value in data.items() if value is not None}
    config = from_dict(ServeConfig, given, where="settings of regard serve")

    from regard.server.app import create_app
    from regard.server.engine import load_engines
    from regard.server.run import run
    from regard.training.device import use_threads

    # oneDNN compiles a kernel for each shape. Batches shrink as sentences end, so a server meets hundreds of
    # shapes over and over: it keeps more of them than training does. PyTorch's cache of their descriptions
    # and buffers is one for each thread, that is for each model. Left at 1024 these two are what grows.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_SHAPES))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(max(_SHAPES // len(models), 16)))
    # The other half answers requests: products that wait for a busy processor are far slower than on fewer.
    use_threads(threads or max(1, available_processors() // 2))
    limits = {"batch": config.batch, "words": config.words, "beam": config.beam}
    shown = {"layer": layer, "head": head, "shift": shift}
    engines = load_engines(models, device, precision, shown, **limits)
    app = create_app(engines, config)

    def ready(address: str) -> None:
        names = ", ".join(engine.name for engine in engines)
        typer.echo(f"{names}: {address}", err=True)

    run(app, config, ready)
