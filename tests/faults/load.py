"""A crowd of clients that asks a server without a pause, some of whom go away before their answer is there.

    python tests/faults/load.py [MODEL ...] [--clients 32] [--minutes 10] [--leaving 0.15] [--json FILE]

Starts `regard serve` on the loopback address, with a tiny random model unless some are given, and reads its
resident memory every second (Linux). Exits with 1 if an answer is wrong or missing, or if memory after the
warm-up (a fifth of the time) grows by more than 5 %.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Crowd", "growth", "resident", "start"]

WARM_UP, LEVEL = 0.2, 0.05
DRAIN = 30.0  # seconds that the last answers may take
WORDS = 12


@dataclass
class Crowd:
    """Clients and what came of their requests.

    Attributes:
        port: Of a server on 127.0.0.1.
        words: What texts are made of.
        models: Names of the models, of which each request takes one.
        leaving: The share of requests whose client goes away.
        seed: Of all that is drawn.
    """

    port: int
    words: Sequence[str]
    models: Sequence[str]
    leaving: float = 0.15
    seed: int = 1
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def run(self, clients: int, seconds: float) -> None:
        """Let clients ask for a while."""
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._client(random.Random(f"{self.seed} {n}"), end) for n in range(clients)))

    async def health(self) -> dict[str, Any]:
        """What the server tells of itself."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    async def _client(self, drawn: random.Random, end: float) -> None:
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(DRAIN):
                    self.answers[await self._ask(drawn)] += 1
            except (OSError, TimeoutError, ValueError, KeyError, EOFError) as error:
                self.answers["wrong"] += 1
                self.wrong.append(f"{type(error).__name__}: {error}")

    async def _ask(self, drawn: random.Random) -> str:
        """Send a request; go away, or read and check the answer."""
        text = " ".join(drawn.choices(self.words, k=drawn.randint(1, WORDS)))
        nbest = drawn.randint(1, 5)
        asked = {"text": text, "nbest": nbest, "model": drawn.choice(self.models), "split": False}
        body = json.dumps({**asked, "stream": drawn.random() < 0.2, "tokens": drawn.random() < 0.2}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        request = head.encode() + body
        leaves = drawn.random() < self.leaving
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request[: drawn.randint(1, len(request))] if leaves else request)
            await writer.drain()
            if leaves:
                await asyncio.sleep(drawn.random() * 0.05)
                return "left"
            answer = await reader.read()
        finally:
            writer.transport.abort() if leaves else writer.close()
        return self._check(answer, text, nbest)

    def _check(self, answer: bytes, text: str, nbest: int) -> str:
        head, _, body = answer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1].decode()
        if status == "429":  # the queue is full: this is said, and no fault
            return status
        if status != "200":
            raise ValueError(f"status {status}: {body[:200]!r}")
        if b"chunked" in head.lower():
            body = b"".join(part for part in body.split(b"\r\n") if part.startswith(b"{"))
            found = json.loads(body.splitlines()[0])
        else:
            (found,) = json.loads(body)["sentences"]
        if found["source"] != text or not 1 <= len(found["translations"]) <= nbest:
            raise ValueError(f"an answer to another question: {text!r}, {found['source']!r}")
        return status


@contextmanager
def start(models: Sequence[Path], *options: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run `regard serve` on a free port of 127.0.0.1: the process, and the port, which is listened on."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, models), "--port", "0", "--threads", "1"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            told = next((line for line in server.stderr if "http://" in line), None)
            if told is None:
                raise RuntimeError(f"the server ended with {server.wait()}")
            # What it logs is read, else it would wait for room in the pipe.
            reading = threading.Thread(target=server.stderr.read, daemon=True)
            reading.start()
            yield server, int(told.rsplit(":", 1)[1])
        finally:
            server.terminate()
            server.wait(60)
        reading.join(60)


def resident(pid: int) -> float:
    """The resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def growth(sizes: Sequence[float]) -> float:
    """How much memory grew from the warm-up to the end, as a share: medians of a tenth of the time each."""
    begin, tenth = int(WARM_UP * len(sizes)), max(len(sizes) // 10, 1)
    first, last = (sorted(part)[len(part) // 2] for part in (sizes[begin : begin + tenth], sizes[-tenth:]))
    return last / first - 1


async def _watched(crowd: Crowd, pid: int, clients: int, seconds: float) -> list[float]:
    sizes: list[float] = []

    async def watch() -> None:
        while True:
            sizes.append(resident(pid))
            if len(sizes) % 10 == 1:
                print(f"{len(sizes):6} s {sizes[-1]:8.1f} MB {dict(crowd.answers)}", flush=True)
            await asyncio.sleep(1)

    watching = asyncio.ensure_future(watch())
    await crowd.run(clients, seconds)
    watching.cancel()
    return sizes


def main() -> int:
    """Run the crowd, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="*", help="Model folders; none: a tiny one is made.")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--leaving", type=float, default=0.15, help="The share of clients that go away.")
    parser.add_argument("--json", type=Path, help="Write what was found to this file.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = options.models or [_tiny(Path(folder) / "model")]
        vocabulary = (models[0] / "source.vocabulary").read_text(encoding="utf-8").splitlines()
        words = [word for word in vocabulary[5:1005] if word.isalnum()]
        with start(models) as (server, port):
            crowd = Crowd(port, words, [model.name for model in models], options.leaving)
            sizes = asyncio.run(_watched(crowd, server.pid, options.clients, 60 * options.minutes))
    found: dict[str, Any] = {"answers": dict(crowd.answers), "growth": growth(sizes), "MB": sizes}
    print(f"{dict(crowd.answers)}; {sizes[0]:.1f} to {sizes[-1]:.1f} MB")
    print(f"after the warm-up: {found['growth']:+.1%}")
    for one in crowd.wrong[:10]:
        print(one)
    if options.json is not None:
        options.json.write_text(json.dumps(found) + "\n")
    return int(bool(crowd.wrong) or found["growth"] > LEVEL)


def _tiny(folder: Path) -> Path:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from server.served import save_model

    return save_model(folder)


if __name__ == "__main__":
    sys.exit(main())
