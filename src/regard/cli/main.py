"""The command line interface: it registers all commands and defines the entry point `main`.

Each command is defined in its own file. Results go to stdout and messages to stderr. The exit status is 0
(success), 1 (failure) or 2 (usage error). Large packages such as PyTorch are imported only when a command
runs, so that `regard --help` is fast.
"""

import logging
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

import regard
from regard.api import installed_extensions, named_object, readable
from regard.cli.align import actions, align_command, fertility
from regard.cli.analyze import analyze
from regard.cli.command import Command, CommandGroup
from regard.cli.evaluate import evaluate_command
from regard.cli.report import report_command
from regard.cli.train import average, config, init_command, prepare_command, train_command, tune_command
from regard.cli.translate import score, translate
from regard.errors import RegardError, missing_extra

app = typer.Typer(
    name="regard",
    cls=CommandGroup,
    help="Neural machine translation with attention mechanisms that you can inspect, constrain and compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(requested: bool) -> None:
    """Print the version and, for bug reports, those of the environment, and exit, if requested."""
    if not requested:
        return
    typer.echo(f"regard {regard.__version__}")
    typer.echo(f"Python {platform.python_version()}, {platform.platform()}")
    for name in ("numpy", "numba", "torch", "transformers", "ctranslate2"):
        with suppress(PackageNotFoundError):
            typer.echo(f"{name} {version(name)}")
    raise typer.Exit


@app.callback()
def load_given_plugins(
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            help="Plugin to import: a Python package, or a file (.py), that registers attention mechanisms "
            "or other parts. It may also stand after the command, and be repeated.",
            show_default=False,
        ),
    ] = None,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and those of Python and packages for bug reports.",
            callback=print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Import the plugins before a command runs."""
    regard.load_plugins(plugin or ())


COMMANDS: dict[str, list[Any]] = {
    "Start": [],
    "Train": [init_command, prepare_command, train_command, average, config],
    "Translate": [translate, score, tune_command],
    "Evaluate and inspect": [evaluate_command, analyze, report_command],
    "Alignment and statistical models": [align_command, fertility, actions],
}
"""The commands, grouped by task as in the help. Those of extensions come after the others."""

for extension in installed_extensions().values():
    for group, names in extension.commands.items():
        COMMANDS[group] += map(named_object, names)

for group, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=group)
        else:
            name = command.__name__.removesuffix("_command")
            app.command(name, cls=Command, rich_help_panel=group)(command)


def main() -> None:
    """Run the command line interface. A user error ends with one message and without a traceback."""
    _open_missing_streams()
    # The encoding of the terminal may lack letters of the text.
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    regard.configure_threads()  # torch reads the environment variables for threads only when it is imported
    logging.basicConfig(format="%(message)s")
    logging.getLogger("regard").setLevel(logging.INFO)  # other libraries log every request
    try:
        app()
    except RegardError as error:
        # Results from before the error must appear before its message.
        sys.stdout.flush()
        print(readable(f"regard: {error}"), file=sys.stderr)
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        print(f"regard: this {missing}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of the pipe has exited (`| head`). This is not an error, so print no message.
        _discard_output()
        sys.exit(1)
    except OSError as error:
        # An error without a file name comes from printing, for example when stdout is on a full disk.
        _discard_output()
        reason = f"{error.filename or 'standard output'}: {error.strerror or error}"
        print(readable(f"regard: {reason}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        # Shells report a process that SIGINT (2) ended with status 128 + 2.
        sys.exit(130)


def _discard_output() -> None:
    """Redirect stdout to the null device, because flushing its buffer at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_missing_streams() -> None:
    """Open the null device for each closed standard stream (`<&-`).

    Otherwise the next file to be opened would get the file descriptor of that stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # Python sets a stream to None if its file descriptor is closed.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
