"""The server limits its connections."""

import asyncio
from contextlib import nullcontext

import httpx

from regard.extensions.serve import run
from regard.extensions.serve.config import ServeConfig


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
