"""`regard serve`: serve models with a web page and a JSON API."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.command import expand_groups, given, setting
from regard.cli.options import (
    CheckerOption,
    DeviceOption,
    LinkOptions,
    OptionalDetectorOption,
    PrecisionOption,
    SettingsOption,
)
from regard.cli.output import print_message
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.extensions.serve.config import ServeConfig
    from regard.extensions.serve.dispatcher import CheckEngine

__all__ = ["serve"]

SERVER = "regard.extensions.serve.config.ServeConfig"
_CACHE_CAPACITY = 128
"""Capacity of oneDNN's cache of compiled kernels, in kernels. A larger cache was not faster."""


@dataclass(frozen=True)
class AddressOptions:
    """The settings of the server that have flags of their own."""

    panel: ClassVar[str] = "Address"

    host: Annotated[str | None, setting(f"{SERVER}:host")] = None
    port: Annotated[int | None, setting(f"{SERVER}:port")] = None
    allow_origins: Annotated[
        list[str] | None,
        setting(f"{SERVER}:allow_origins", "--allow-origin", note="The option may be repeated."),
    ] = None
    allow_hosts: Annotated[
        list[str] | None,
        setting(f"{SERVER}:allow_hosts", "--allow-host", note="The option may be repeated."),
    ] = None


@dataclass(frozen=True)
class ServedCheckOptions:
    """The check of translations."""

    panel: ClassVar[str] = "Check"

    checker: CheckerOption = None
    detector: OptionalDetectorOption = None

    def load(self) -> "CheckEngine | None":
        """Return the detectors; None without a detector and a model.

        Raises:
            UsageError: If there is no such detector, or it needs a model.
            DataError: If the model cannot be read.
        """
        from regard.config.extensions import require_hook

        if self.checker is None and self.detector is None:
            return None
        return require_hook("served_check", "check").load(self.checker, self.detector or "combined")


@dataclass(frozen=True)
class ServerRuntime:
    """The options of the computation."""

    panel: ClassVar[str] = "Computation"

    precision: PrecisionOption = "float32"
    device: DeviceOption = "auto"
    num_threads: Annotated[int | None, setting(f"{SERVER}:num_threads")] = None


@expand_groups
def serve(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model directories. The web page can compare two models.", show_default=False),
    ],
    address: AddressOptions,
    checks: ServedCheckOptions,
    links: LinkOptions,
    runtime: ServerRuntime,
    settings: SettingsOption = None,
) -> None:
    """Serve models with a web page for translation and interactive attention maps, and with a JSON API.

    With --checker, the page marks words that are probably omitted, added or repeated, in its own
    translations and in those that you enter. --detector chooses the one that the page uses first; it is
    `combined` with --checker. The web page is at /, the description of the API at
    /openapi.json. Ctrl-C or SIGTERM stops the server after the running requests are finished.

    Settings of --set: batch_window (time to wait for more sentences of a batch, in milliseconds),
    batch_size (maximum number of sentences in a batch), max_queued_sentences (maximum number of waiting
    sentences), request_timeout (time limit of a request, in seconds), max_request_bytes (maximum size of
    a request), max_characters and max_sentences (maximum numbers per request), max_words (maximum number
    of words in a sentence), max_beam_size and max_connections (maximum number of open
    connections).

    Example: regard serve runs/first runs/second --port 8080

    Example: regard serve runs/first --checker checker
    """
    # Wrong options are reported before the models are loaded.
    _require_packages()
    config = _config(given(address) | given(runtime), settings or [])

    from regard.cpu_threads import num_available_cpus
    from regard.extensions.serve.app import create_app
    from regard.extensions.serve.engine import load_engines
    from regard.extensions.serve.run import run_server
    from regard.training.device import set_num_threads

    _limit_kernel_caches(len(models))
    # Use half of the processors and leave the other half for requests. Matrix multiplications that wait for a
    # busy processor are much slower than with fewer threads.
    set_num_threads(config.num_threads or max(1, num_available_cpus() // 2))
    checker = checks.load()
    engines = load_engines(
        models,
        runtime.device,
        runtime.precision,
        given(links),
        batch_size=config.batch_size,
        max_words=config.max_words,
        max_beam_size=config.max_beam_size,
    )
    app = create_app(engines, config, checker)
    names = ", ".join(engine.name for engine in engines)
    run_server(app, config, lambda address: print_message(f"{names}: {address}"))


def _limit_kernel_caches(num_models: int) -> None:
    """Set the capacity of the caches of compiled kernels, before PyTorch is used."""
    # oneDNN compiles a kernel for each shape. Batches shrink as sentences end, so a server sees hundreds of
    # shapes again and again and needs a larger cache than training. PyTorch has another cache of descriptions
    # and buffers per thread, that is, per model. With a capacity of 1024, these caches would use more and
    # more memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_CACHE_CAPACITY))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(max(_CACHE_CAPACITY // num_models, 16)))


def _require_packages() -> None:
    """Check that the packages of the extra `serve` are installed.

    Raises:
        UsageError: If one of them is missing.
    """
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"regard serve needs {', '.join(missing)}. Install the packages with: pip install 'regard[serve]'"
        )


def _config(flags: dict[str, Any], settings: list[str]) -> "ServeConfig":
    """Return the settings of the server; those of `--set` replace those of flags."""
    from regard.config import apply_override, from_dict
    from regard.extensions.serve.config import ServeConfig

    data = {name: value for name, value in flags.items() if name in ServeConfig.__dataclass_fields__}
    for override in settings:
        apply_override(data, override)
    return from_dict(ServeConfig, data, origin="settings of regard serve")
