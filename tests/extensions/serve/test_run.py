"""Clients that send nothing, send slowly, or use a foreign host name do not block other clients."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext

import pytest
import uvicorn

from regard.config import from_dict
from regard.errors import ConfigError
from regard.extensions.serve.config import AllowedHosts, ServeConfig
from regard.extensions.serve.run import RateLimitFilter, connection_class, most_connections
from warm_python import warm_python

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WHOLE = HALF + b"\r\n"
SERVE = """
import logging, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
logging.basicConfig(format="%(message)s", level=logging.INFO)
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.run import run_server
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
run_server(app, ServeConfig(port=0, header_timeout=3.0), lambda address: print(address, flush=True))
"""


async def answer(scope, receive, send):
    """Respond with 200: for /slow once a body has arrived, for /long with 40 MB."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = b"x" * (40_000_000 if scope["path"] == "/long" else 2)
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(**settings):
    """Run a server in this process; yield a function that sends parts of a request to it.

    The function opens a connection and returns its reader and writer.
    """
    config = ServeConfig(port=0, **settings)
    connection, backlog = connection_class(config)
    made = uvicorn.Config(answer, port=0, http=connection, backlog=backlog, log_config=None, lifespan="off")
    server = uvicorn.Server(made)
    server.capture_signals = nullcontext
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port, opened = server.servers[0].sockets[0].getsockname()[1], []

    async def send(*parts):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        for part in parts:
            writer.write(part)
        await writer.drain()
        return reader, writer

    try:
        yield send
    finally:
        for writer in opened:
            writer.close()
        await asyncio.gather(*(one.wait_closed() for one in opened), return_exceptions=True)
        server.should_exit = True
        await running


async def read(reader):
    """Return everything that the server sends until it closes the connection."""
    async with asyncio.timeout(20):
        return await reader.read()


def test_incomplete_header_gets_408_and_is_closed_in_time():
    async def run():
        async with served(header_timeout=0.3) as send:
            began = time.monotonic()
            half, silent = await send(HALF), await send()
            assert (await read(half[0])).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert await read(silent[0]) == b""
            assert 0.25 < time.monotonic() - began < 15
            # This also applies to later requests on a kept connection.
            reader, writer = await send(WHOLE)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.write(HALF)
            assert b"HTTP/1.1 408" in await read(reader)

    asyncio.run(run())


def test_request_in_progress_is_not_limited_by_the_header_timeout():
    async def run():
        async with served(header_timeout=0.2) as send:
            slow = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
            reader, writer = await send(slow)
            await asyncio.sleep(0.6)
            writer.write(b"ab")
            assert (await read(reader)).startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_longest_waiting_connection_is_closed_when_none_is_free():
    async def run():
        async with served(max_connections=5, header_timeout=60) as send:
            working = await send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
            half = [await send(HALF) for _ in range(20)]
            reader, _ = await send(WHOLE)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert (await read(half[0][0])).startswith(b"HTTP/1.1 408")
            working[1].write(b"ab")
            assert (await working[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_new_connection_is_rejected_when_all_are_in_use():
    async def run():
        async with served(max_connections=3) as send:
            busy = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
            working = [await send(busy) for _ in range(3)]
            await asyncio.sleep(0.1)
            reader, _ = await send()
            refused = await read(reader)
            assert refused.startswith(b"HTTP/1.1 503")
            assert json.loads(refused.partition(b"\r\n\r\n")[2]) == {
                "error": "the server has too many connections"
            }
            for reader, writer in working:
                writer.write(b"ab")
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_client_that_does_not_read_is_disconnected():
    async def run():
        async with served(header_timeout=0.3) as send:
            _, writer = await send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
            writer.transport.pause_reading()
            with pytest.raises(OSError):
                for _ in range(400):
                    await asyncio.sleep(0.05)
                    writer.write(b"x" * 100_000)
                    await writer.drain()

    asyncio.run(run())


def test_slow_reader_gets_the_whole_response():
    async def run():
        async with served(header_timeout=0.2) as send:
            reader, _ = await send(b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            size, began = 0, time.monotonic()
            while part := await reader.read(2_000_000):
                size += len(part)
                await asyncio.sleep(0.005)
            assert size > 40_000_000 and time.monotonic() - began > 0.3

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of open files")
def test_300_incomplete_headers_with_256_files_do_not_block_the_server(tmp_path):
    command = [warm_python(), "-c", SERVE]
    with (
        open(tmp_path / "log", "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
        ExitStack() as held,
    ):
        held.callback(server.terminate)
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(":", 1)[1])

        def connect():
            return held.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=20)))

        for _ in range(300):
            connect().sendall(HALF)
        for _ in range(20):
            client = connect()
            client.sendall(WHOLE)
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
    lines = (tmp_path / "log").read_text().splitlines()
    # One line per cause per second; the test takes several seconds on a busy machine.
    assert 1 <= len(lines) < 100 and "Traceback" not in "\n".join(lines)
    assert any("ulimit -n" in line for line in lines)


def test_connection_limit_leaves_files_for_other_uses(monkeypatch):
    resource = pytest.importorskip("resource")
    for files in (64, 256, 1024, 1_000_000):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        monkeypatch.setattr("regard.extensions.serve.run.os.listdir", lambda _: ["0"] * 20)
        most, backlog = most_connections(500)
        assert 1 <= most <= 500 and (most == 1 or most + 3 * backlog + 20 < files)
    assert most == 500


def test_repeated_message_is_logged_once_per_second_with_its_count():
    now = [0.0]
    once = RateLimitFilter(lambda: now[0])
    error = OSError(24, "Too many open files")
    passed = []
    for i in range(30):
        now[0] = i / 10
        message = "socket.accept() out of system resource\nsocket: <x>" if i % 2 else "invalid %s"
        args = () if i % 2 else ("request",)
        info = (OSError, error, None) if i % 2 else None
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, message, args, info)
        if once.filter(record):
            passed.append(record.getMessage())
            assert record.exc_info is None
    assert passed == [
        "invalid request",
        "socket.accept() out of system resource: Too many open files",
        "invalid request (4 similar messages suppressed)",
        "socket.accept() out of system resource: Too many open files (4 similar messages suppressed)",
        "invalid request (4 similar messages suppressed)",
        "socket.accept() out of system resource: Too many open files (4 similar messages suppressed)",
    ]


def scope(host, server=("192.168.1.5", 8000)):
    """Return the scope of a request with a Host header."""
    headers = [] if host is None else [(b"host", host.encode())]
    return {"type": "http", "headers": headers, "server": server}


@pytest.mark.parametrize(
    ("listens", "allowed", "host", "answered"),
    [
        ("127.0.0.1", (), "127.0.0.1:8000", True),
        ("127.0.0.1", (), "LOCALHOST.:9000", True),
        ("127.0.0.1", (), "[::1]:8000", True),
        ("127.0.0.1", (), "evil.example", False),
        ("127.0.0.1", (), "evil.example:8000", False),
        ("127.0.0.1", (), "127.0.0.1.evil.example", False),
        ("127.0.0.1", (), "localhost@evil.example", False),
        ("127.0.0.1", (), "", False),
        ("127.0.0.1", (), "10.0.0.1", False),
        ("127.0.0.1", (), None, True),
        ("127.0.0.1", ("translate.example.org",), "Translate.Example.Org:443", True),
        ("127.0.0.1", ("translate.example.org",), "a.translate.example.org", False),
        ("127.0.0.1", ("*",), "evil.example", True),
        ("0.0.0.0", (), "192.168.1.5:8000", True),
        ("0.0.0.0", (), "192.168.1.6:8000", False),
        ("0.0.0.0", (), "evil.example", False),
        ("0.0.0.0", (), "localhost", False),
        ("0.0.0.0", (), socket.gethostname(), True),
    ],
)
def test_server_responds_only_to_its_own_host_names(listens, allowed, host, answered):
    refusal = AllowedHosts(listens, allowed).rejection_reason(scope(host))
    assert (refusal is None) == answered
    assert answered or "--allow-host" in str(refusal)


def test_loopback_names_are_accepted_over_the_loopback_address():
    hosts = AllowedHosts("0.0.0.0")
    assert hosts.rejection_reason(scope("localhost:8000", ("127.0.0.1", 8000))) is None
    assert hosts.rejection_reason(scope("[::1]", ("::ffff:127.0.0.1", 8000))) is None
    assert hosts.rejection_reason(scope("evil.example", ("127.0.0.1", 8000))) is not None


@pytest.mark.parametrize("name", ["https://example.org", "example.org:8000", "", "a/b", "a b", "::g"])
def test_invalid_host_name_is_rejected(name):
    with pytest.raises(ConfigError, match="allow_hosts"):
        from_dict(ServeConfig, {"allow_hosts": [name]}, origin="settings")
