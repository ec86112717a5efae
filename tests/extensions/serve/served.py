"""Small model directories, and a server in this process, for tests."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import torch

from regard.config import dump_toml, from_dict, to_dict
from regard.data.fertility import Budget, ConstantFertilityConfig
from regard.data.text import TextProcessor, TextSide
from regard.extensions.check.server import CheckServer
from regard.extensions.serve.app import create_app
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.engine import ModelServer, load_engines
from regard.models import build_model
from regard.runs.checksums import write_weights
from regard.runs.description import CONFIG_FILE, END_MARKER
from regard.runs.weights import named_weights
from regard.text.tokenizers.base import TextFormat
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from regard.training.run_config import RunConfig

T = TypeVar("T")
SOURCE, TARGET = "a b c d e f g", "A B C D E F G"
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
    fertility: float = 0,
    tokenized: bool = False,
) -> Path:
    """Write a model directory with random weights, as training does; a fertility bounds its attention."""
    directory.mkdir(parents=True)
    settings: dict[str, Any] = {
        "data": {"train": [{"source": "s", "target": "t"}], "valid": {"source": "s", "target": "t"}},
        "model": {
            "embedding_size": 8,
            "encoder": {"hidden_size": 8},
            "decoder": {"hidden_size": 8},
            "init_range": 1.5,
        },
        "generation": {"beam_size": 3, "min_length": 2, "max_length_ratio": 1.0, "max_length_offset": 3},
    }
    # The bilinear score with large weights gives a random model a peaked attention.
    settings["model"]["attention"] = attention or {"score_function": "bilinear"}
    if fertility:
        settings["data"]["fertility"] = {"kind": "constant", "value": fertility}
        settings["model"]["attention"] = {"kind": "constrained", "score_function": "bilinear"}
    config = from_dict(RunConfig, settings)
    sides = [
        TextSide(
            WordsTokenizer(WordsConfig()),
            Vocabulary((*SPECIAL_TOKENS, *words.split())),
            text_format=TextFormat(tokenized=tokenized, language="de" if tokenized else None),
        )
        for words in (SOURCE, TARGET)
    ]
    budget = None
    if fertility:
        budget = Budget.constant(ConstantFertilityConfig(value=fertility), len(sides[0].vocabulary))
    TextProcessor(*sides, budget).save(directory)
    torch.manual_seed(seed)
    model = build_model(config.model, len(sides[0].vocabulary), len(sides[1].vocabulary))
    write_weights(directory, to_dict(config), named_weights(model), {})
    (directory / CONFIG_FILE).write_text(dump_toml(config) + END_MARKER, encoding="utf-8")
    return directory


def engines(directory: Path) -> list[ModelServer]:
    """Return the engines of a plain model, a model with fertilities, and a model without attention."""
    models = [
        save_model(directory / "plain"),
        save_model(directory / "bounded", seed=1, fertility=2.0),
        save_model(directory / "blind", attention={"kind": "none"}),
    ]
    return load_engines(models, "cpu")


def without_prefix(app: Any, prefix: str) -> Any:
    """Return an application that removes a path prefix, as a reverse proxy does."""

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            # Outside of the prefix, the proxy has other pages.
            scope = {**scope, "path": path.removeprefix(prefix) if path.startswith(f"{prefix}/") else "/no"}
        await app(scope, receive, send)

    return proxy


@asynccontextmanager
async def client(
    engines: list[ModelServer],
    checker: CheckServer | None = None,
    place: Callable[[Any], Any] = lambda app: app,
    **settings: Any,
):
    """Yield a client of a server in this process, or of the application in which `place` puts the server."""
    app = create_app(engines, ServeConfig(**settings), checker)
    transport = httpx.ASGITransport(place(app), raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as one,
    ):
        yield one


def ask(engines: list[ModelServer], work: Callable[[httpx.AsyncClient], Awaitable[T]], **settings: Any) -> T:
    """Run `work` with such a client and return its result."""

    async def run() -> T:
        async with client(engines, **settings) as one:
            return await work(one)

    return asyncio.run(run())
