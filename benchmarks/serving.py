"""Latency of the web server for 1 and 8 users, and throughput for 32 users with and without batching.

    python benchmarks/serving.py MODEL [--sentences FILE] [--warm-up 10] [--seconds 8] [--threads 1]
                                 [--json FILE]

The script starts `regard serve` on the loopback address and sends requests over HTTP as the page does
(n-best 5 with attention). Each user sends the next request, with another sentence of 12 words, when the
last response has arrived. "One at a time" is the same server with batches of one sentence. Requests of the
warm-up are not counted, because the server compiles kernels for new shapes.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

WORDS = 12
GOALS = {"8 users, median, ms": 150, "8 users, 99 %, ms": 400, "batching under 32 users, times": 3}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--sentences", type=Path, help="Text in the model's source language.")
    parser.add_argument("--warm-up", type=float, default=10.0, help="Seconds before each measurement.")
    parser.add_argument("--seconds", type=float, default=8.0, help="Seconds of each measurement.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--num-return", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    texts = sentences(options.model, options.sentences)
    found: dict[str, Any] = {}
    with_batches = ["--set", "batch_size=32"]
    for users in (1, 8, 32):
        found[f"{users} users"] = measure(options, texts, users, with_batches)
    found["32 users, one at a time"] = measure(
        options, texts, 32, ["--set", "batch_size=1", "--set", "batch_window=0"]
    )
    found["gain"] = found["32 users"]["per second"] / found["32 users, one at a time"]["per second"]
    print(f"{'':26}{'median, ms':>12}{'99 %, ms':>12}{'sentences/s':>14}{'answers':>10}")
    for name, row in found.items():
        if isinstance(row, dict):
            print(
                f"{name:26}{row['median']:12.1f}{row['99 %']:12.1f}{row['per second']:14.1f}{row['count']:10}"
            )
    print("goals: " + "; ".join(f"{name} {value:g}" for name, value in GOALS.items()))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(f"batching under 32 users: {found['gain']:.2f} times the throughput of one at a time")


def sentences(model: Path, path: Path | None) -> list[str]:
    """Return sentences of 12 words: lines of a text with this length, or random words of the vocabulary."""
    if path is not None:
        lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
        found = [" ".join(words) for words in lines if len(words) == WORDS]
        if len(found) < 100:
            raise SystemExit(f"{path}: {len(found)} lines of {WORDS} words; expected at least 100")
        return found
    known = (model / "source.vocabulary").read_text(encoding="utf-8").splitlines()
    words = [word for word in known[5:1005] if word.isalpha()]
    generator = np.random.default_rng(1)
    return [" ".join(generator.choice(words, WORDS)) for _ in range(5000)]


def measure(options: argparse.Namespace, texts: list[str], users: int, settings: list[str]) -> dict[str, Any]:
    """Start a server, measure it under load from `users` users, and stop it."""
    command = [sys.executable, "-m", "regard", "serve", str(options.model), "--port", "0"]
    command += ["--num-threads", str(options.threads), *settings]
    server = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
    )
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split()[-1]
        return asyncio.run(crowd(address, texts, users, options))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


async def crowd(address: str, texts: list[str], users: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return latencies in milliseconds and the throughput under requests from users without pauses."""
    times: list[float] = []
    pending = iter(texts * 1000)
    begin = time.monotonic() + options.warm_up
    limits = httpx.Limits(max_connections=users)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:

        async def user() -> None:
            while time.monotonic() < begin + options.seconds:
                sent = time.monotonic()
                answer = await client.post(
                    "/translate",
                    json={"text": next(pending), "num_return": options.num_return, "split": False},
                )
                answer.raise_for_status()
                if sent >= begin:
                    times.append(1000 * (time.monotonic() - sent))

        await asyncio.gather(*(user() for _ in range(users)))
        took = time.monotonic() - begin
    middle, late = np.percentile(times, [50, 99])
    return {
        "median": float(middle),
        "99 %": float(late),
        "per second": len(times) / took,
        "count": len(times),
    }


if __name__ == "__main__":
    main()
