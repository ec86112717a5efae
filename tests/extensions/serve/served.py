"""Small model directories, and a server in this process, for tests."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

import saved_models
from regard.extensions.check.server import CheckServer
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import ModelServer
from regard.text.tokenizers.base import TextFormat
from saved_models import LSTM, SOURCE, TARGET, words_side

T = TypeVar("T")
SEPARATORS = [
    (" ", "Ja.", "Nein.", " "),
    ("\u3000", "Ja.", "Nein.", " "),
    ("\n\n", "Ja.", "Nein.", "\n\n"),
    ("\n", "是。", "不。", "\n"),
    ("\n\u3000", "是。", "不。", "\n\u3000"),
    (" ", "是。", "不。", ""),
    ("", "是。", "不。", ""),
    (" ", "「はい」", "NHKです。", ""),
    (" ", "他说：“是。”", "“不。”", ""),
    (" ", "是.", "不.", ""),
    (" ", "ｱ!", "カ!", ""),
    (" ", "I live in 北京.", "It is large.", " "),
    (" ", "It is large.", "北京 is large.", " "),
    (" ", "是 。", "不 。", " "),  # tokenized text
    (" ", "네.", "아니요.", " "),
    (" ", "ใช่", "ไม่", " "),
    (" ", "हाँ।", "नहीं।", " "),
    (" ", "", "是。", " "),
]
"""White space between two source sentences, two translations, and what separates these."""


def save_model(
    directory: Path,
    seed: int = 0,
    attention: dict[str, Any] | None = None,
    fertility: float | None = None,
    tokenized: bool = False,
) -> Path:
    """Save a model with a peaked attention: it has a bilinear score and large weights."""
    directory.mkdir(parents=True)
    kind = {"kind": "soft" if fertility is None else "constrained"}
    text_format = TextFormat(tokenized=tokenized, language="de" if tokenized else None)
    source, target = (replace(words_side(words), text_format=text_format) for words in (SOURCE, TARGET))
    return saved_models.save_model(
        directory,
        seed,
        model={**LSTM, "init_range": 1.5},
        attention=attention or {**kind, "score_function": "bilinear"},
        fertility=fertility,
        source=source,
        target=target,
        generation={"min_length": 2, "max_length_offset": 3},
    )


def without_prefix(app: Any, prefix: str) -> Any:
    """Return an application that removes a path prefix, as a reverse proxy does."""

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            # Outside of the prefix, the proxy has other pages.
            scope = {**scope, "path": path.removeprefix(prefix) if path.startswith(f"{prefix}/") else "/no"}
        await app(scope, receive, send)

    return proxy


def ask(
    engines: list[ModelServer],
    work: Callable[[httpx.AsyncClient], Awaitable[T]],
    checker: CheckServer | None = None,
    place: Callable[[Any], Any] = lambda app: app,
    **settings: Any,
) -> T:
    """Run `work` with a client of a server, or of the application in which `place` puts the server."""
    app = create_app(engines, ServeConfig(**settings), checker)

    async def run() -> T:
        transport = httpx.ASGITransport(place(app), raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            return await work(client)

    return asyncio.run(run())


def post(engines: list[ModelServer], path: str, content: Any, **settings: Any) -> httpx.Response:
    """Return the response to a POST request."""
    return ask(engines, lambda client: client.post(path, json=content), **settings)
