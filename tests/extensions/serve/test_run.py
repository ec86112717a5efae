"""The server limits its connections and finishes running requests."""

import asyncio
import os
import signal
import threading

import httpx

from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.run import run_server


async def answer(scope, receive, send):
    """Respond with 200 once a body has arrived."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def test_further_connections_get_503_and_busy_ones_are_finished():
    finished = []

    async def clients(address):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rsplit(":", 1)[1]))
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        async with httpx.AsyncClient(base_url=address) as client:
            while (found := await client.get("/")).status_code != 503:
                await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        writer.write(b"ab")
        finished.append((found.status_code, await reader.readuntil(b"\r\n\r\n")))
        writer.close()

    threads = []

    def ready(address):
        threads.append(threading.Thread(target=lambda: asyncio.run(clients(address))))
        threads[0].start()

    before = signal.getsignal(signal.SIGTERM)
    run_server(answer, ServeConfig(port=0, max_connections=2), ready)
    threads[0].join(20)
    assert finished[0][0] == 503 and finished[0][1].startswith(b"HTTP/1.1 200")
    assert signal.getsignal(signal.SIGTERM) is before
