"""The server responds only to its own host names, and limits its connections."""

import asyncio
import socket
from contextlib import nullcontext

import httpx
import pytest

from regard.config import from_dict
from regard.errors import ConfigError
from regard.extensions.serve import run
from regard.extensions.serve.config import AllowedHosts, ServeConfig


async def answer(scope, receive, send):
    """Respond with 200 once a body has arrived."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def test_further_connections_get_503_and_busy_ones_are_finished(monkeypatch):
    ready, finished = [], []

    async def clients(server):
        while not ready:
            await asyncio.sleep(0.01)
        port = int(ready[0].rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        async with httpx.AsyncClient(base_url=ready[0]) as client:
            while (found := await client.get("/")).status_code != 503:
                await asyncio.sleep(0.05)
        writer.write(b"ab")
        finished.append((found.status_code, await reader.readuntil(b"\r\n\r\n")))
        writer.close()
        server.should_exit = True

    class Server(run._Server):
        capture_signals = nullcontext

        async def serve(self, sockets=None):
            await asyncio.wait_for(asyncio.gather(super().serve(sockets), clients(self)), 60)

    monkeypatch.setattr(run, "_Server", Server)
    run.run_server(answer, ServeConfig(port=0, max_connections=2), ready.append)
    assert finished[0][0] == 503 and finished[0][1].startswith(b"HTTP/1.1 200")


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
