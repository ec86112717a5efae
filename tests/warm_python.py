"""A replacement of the Python interpreter for tests that start many commands: it forks a prepared process.

A new process needs 2 to 5 seconds to import PyTorch, Numba, the packages of regard and what these import when
a command runs, which is longer than most commands of the tests run. `warm_python` starts one process that
imports them once, the server, and returns the path of a small executable, the client, that takes the place of
`sys.executable`:

    subprocess.run([warm_python(), "-m", "regard", "translate", "model"], ...)

The client passes its arguments, working directory, environment variables and standard streams to the server.
The server forks a child, which runs the module, the code or the script with them and ends like an interpreter
does. The client forwards signals to the child, and ends with its exit status or by its signal. If the client
is killed, so is the child. Only the options `-P`, `-m` and `-c` are understood.

Tests of the start of an interpreter (imported packages, threads of OpenMP, closed standard streams) need
`sys.executable`.
"""

import array
import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

__all__ = ["warm_python"]

IMPORTED = (
    "jinja2", "numba.np.linalg", "numpy.ma", "pydantic", "rich.console", "rich.progress", "rich.table",
    "sacrebleu", "safetensors.numpy", "safetensors.torch", "scipy.linalg", "torch._dynamo", "typer.testing",
    "regard.alignment", "regard.analyze", "regard.api.translator", "regard.api.report", "regard.api.training",
    "regard.runs.loading", "regard.cli.main", "regard.training.run",
    "regard.extensions.ctranslate2.export", "regard.generation.ensemble",
    "regard.generation.base", "regard.generation.neural_translator",
    "regard.kernels._numba.attention", "regard.kernels._numba.dropout",
    "regard.kernels._numba.normalizers", "regard.models.conv.model", "regard.extensions.hf.systems",
    "regard.extensions.hf.language_model", "regard.models.rnn.model", "regard.models.transformer.model",
    "regard.extensions.phrasebook", "regard.plot", "regard.extensions.reproduce.job", "regard.runs.loading",
    "regard.extensions.smt.training", "regard.extensions.tour", "regard.training.trainer",
)  # fmt: skip
"""Modules that commands import at the start or later. Importing them starts no threads, which forks lack."""

CLIENT = """
import array, json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
streams = array.array("i", [0, 1, 2])
server.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
request = [sys.argv[1:], os.getcwd(), dict(os.environ), os.getppid()]
server.sendall(json.dumps(request).encode() + b"\\n")
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: server.send(bytes([number])))
status = int(server.makefile().readline())
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.cache
def warm_python() -> str:
    """Start the server, once per process, and return the path of the client."""
    directory = tempfile.mkdtemp(prefix="warm-python-")
    client, script, address = (Path(directory, name) for name in ("python", "client.py", "server"))
    script.write_text(CLIENT.format(address=str(address)))
    client.write_text(f"#!/bin/sh\nexec '{sys.executable}' -IS '{script}' \"$@\"\n")
    client.chmod(0o700)
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the commands through their clients only
    )
    assert server.stdin is not None and server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the server could not start"
    atexit.register(_stop, directory, server)
    return str(client)


def _stop(directory: str, server: "subprocess.Popen[bytes]") -> None:
    """End the server, which ends with its standard input, and remove its files."""
    server.communicate()
    shutil.rmtree(directory)


def _serve(address: str) -> None:
    """Fork a process for each client, until the standard input ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a collection in a child would copy the memory of all these objects
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    os.write(1, b"ready\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children need not be waited for
    while 0 not in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _attend(connection)
        connection.close()


def _attend(connection: socket.socket) -> NoReturn:
    """Run the command of a client in a child, forward signals to it, and send its status to the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    streams = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    with connection.makefile("rb", buffering=0) as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        status = _exit_status(lambda: _run(*request, list(streams)))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # An interpreter that ends normally destroys all its modules, which takes over a second.
        os._exit(status)
    for stream in streams:
        os.close(stream)

    def forward() -> None:
        with suppress(ProcessLookupError):
            while number := connection.recv(1):
                os.kill(child, number[0])
            os.kill(child, signal.SIGKILL)  # the client was killed

    threading.Thread(target=forward, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(BrokenPipeError):
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _exit_status(run: Callable[[], None]) -> int:
    """Run a function; return the exit status, and print the message, that an interpreter would end with."""
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _run(
    arguments: list[str], directory: str, environment: dict[str, str], parent: int, streams: list[int]
) -> None:
    """Run a command in this process as a new interpreter with these arguments would do."""
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    os.getppid = lambda: parent
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    if arguments[0] == "-P":
        del arguments[0]
    else:
        script = not arguments[0].startswith("-")
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent) if script else directory)
    option, *rest = arguments
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(option, run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
    os._exit(0)  # like a child
