"""Load test of the server: clients send requests without a pause, and some disconnect before the answer.

    python tests/faults/load.py [MODEL ...] [--clients 32] [--minutes 10] [--leaving 0.15] [--json FILE]

Starts `regard serve` on the loopback address and reads its resident memory every second (Linux). The default
model is tiny and random. The exit status is 1 if an answer is wrong or missing, or if memory after the
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
DRAIN = 30.0  # maximum time of an answer, in seconds
WORDS = 12
DETAILS = ("none", "words", "tokens")  # attention in the answers


@dataclass
class Crowd:
    """Clients, and the outcomes of their requests.

    Attributes:
        port: The port of a server on 127.0.0.1.
        words: The words of the texts.
        models: Names of the models; each request uses one.
        leaving: The share of requests whose client disconnects early.
        seed: Seed of the random requests.
    """

    port: int
    words: Sequence[str]
    models: Sequence[str]
    leaving: float = 0.15
    seed: int = 1
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def run(self, clients: int, seconds: float) -> None:
        """Let clients send requests for some seconds."""
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._client(random.Random(f"{self.seed} {n}"), end) for n in range(clients)))

    async def health(self) -> dict[str, Any]:
        """Return the health report of the server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    async def _client(self, rng: random.Random, end: float) -> None:
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(DRAIN):
                    self.answers[await self._ask(rng)] += 1
            except (OSError, TimeoutError, ValueError, KeyError, EOFError) as error:
                self.answers["wrong"] += 1
                self.wrong.append(f"{type(error).__name__}: {error}")

    async def _ask(self, rng: random.Random) -> str:
        """Send a request; disconnect, or read and check the answer."""
        text = " ".join(rng.choices(self.words, k=rng.randint(1, WORDS)))
        num_return = rng.randint(1, 5)
        fields = {"text": text, "num_return": num_return, "model": rng.choice(self.models), "split": False}
        body = json.dumps({**fields, "stream": rng.random() < 0.2, "attention": rng.choice(DETAILS)}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        request = head.encode() + body
        leaves = rng.random() < self.leaving
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request[: rng.randint(1, len(request))] if leaves else request)
            await writer.drain()
            if leaves:
                await asyncio.sleep(rng.random() * 0.05)
                return "left"
            answer = await reader.read()
        finally:
            writer.transport.abort() if leaves else writer.close()
        return self._check(answer, text, num_return)

    def _check(self, answer: bytes, text: str, num_return: int) -> str:
        head, _, body = answer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1].decode()
        if status == "429":  # the queue is full, which is not an error
            return status
        if status != "200":
            raise ValueError(f"status {status}: {body[:200]!r}")
        if b"chunked" in head.lower():
            body = b"".join(part for part in body.split(b"\r\n") if part.startswith(b"{"))
            found = json.loads(body.splitlines()[0])
        else:
            (found,) = json.loads(body)["sentences"]
        if found["source"] != text or not 1 <= 1 + len(found["alternatives"]) <= num_return:
            raise ValueError(f"the answer belongs to another request: {text!r}, {found['source']!r}")
        return status


@contextmanager
def start(models: Sequence[Path], *options: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run `regard serve` on a free port of 127.0.0.1; yield the process and the port once it is ready."""
    command = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        *map(str, models),
        "--port",
        "0",
        "--num-threads",
        "1",
    ]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            address = next((line for line in server.stderr if "http://" in line), None)
            if address is None:
                raise RuntimeError(f"the server ended with {server.wait()}")
            # The log must be consumed, or the server would block on a full pipe.
            reading = threading.Thread(target=server.stderr.read, daemon=True)
            reading.start()
            yield server, int(address.rsplit(":", 1)[1])
        finally:
            server.terminate()
            server.wait(60)
        reading.join(60)


def resident(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def growth(sizes: Sequence[float]) -> float:
    """Return the relative growth of memory from the warm-up to the end.

    Both values are medians over a tenth of the time.
    """
    begin, tenth = int(WARM_UP * len(sizes)), max(len(sizes) // 10, 1)
    first, last = (sorted(part)[len(part) // 2] for part in (sizes[begin : begin + tenth], sizes[-tenth:]))
    return last / first - 1


async def _watched(crowd: Crowd, pid: int, clients: int, seconds: float) -> list[float]:
    """Run the crowd and return the resident memory at every second."""
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
    """Run the crowd and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", type=Path, nargs="*", help="Model directories. Default: a tiny random model."
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--leaving", type=float, default=0.15, help="Share of clients that disconnect early.")
    parser.add_argument("--json", type=Path, help="Write the results to this file.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        models = options.models or [_tiny(Path(directory) / "model")]
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


def _tiny(directory: Path) -> Path:
    """Write a tiny model and return its directory."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from extensions.serve.served import save_model

    return save_model(directory)


if __name__ == "__main__":
    sys.exit(main())
