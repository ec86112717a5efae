"""The web application: the endpoints of the JSON API and of the page."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from regard import __version__
from regard.api.translations import Scores, Translations
from regard.config.extensions import hook
from regard.config.results import SCHEMA_VERSION, Result
from regard.errors import RegardError
from regard.extensions.serve import schemas
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.dispatcher import Dispatcher, collect_answers, stream_answers
from regard.extensions.serve.engine import ModelServer, ScoreSettings, SearchSettings, SentenceJob
from regard.extensions.serve.middleware import (
    ErrorResponse,
    RequestMiddleware,
    add_handlers,
    unexpected_error_response,
)
from regard.extensions.serve.validation import (
    SplitTexts,
    check_request_texts,
    pair_jobs,
    split_sentences,
    split_texts,
)
from regard.generation.translation import Translation
from regard.text.files import format_json
from regard.text.words import split_whitespace

NDJSON = "application/x-ndjson"
_STATUS_DESCRIPTIONS = {
    400: "The body is not JSON.",
    404: "There is no model of this name.",
    405: "The endpoint does not support this method.",
    413: "The body is too large.",
    415: "The header Content-Type is not application/json.",
    421: "The header Host names a different server.",
    422: "The request does not have the described form, or exceeds a limit.",
    429: "Too many sentences are waiting; retry after the number of seconds in `Retry-After`.",
    500: "Internal server error; the server's log contains the cause under the given identifier.",
    503: "The server is shutting down.",
    504: "The answer took too long.",
}


def _error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": ErrorResponse, "description": _STATUS_DESCRIPTIONS[status]}
        for status in sorted({405, 421, 500, *statuses})
    }


_ERROR_RESPONSES = _error_responses(400, 404, 413, 415, 422, 429, 503, 504)


def create_app(engines: Sequence[ModelServer], config: ServeConfig, checker: Any = None) -> FastAPI:
    """Return the application that serves some models.

    Args:
        engines: The models; the first is the default for requests that name no model.
        config: The limits, and the allowed hosts and origins.
        checker: The detectors of errors in translations. Default: translations cannot be checked.
    """
    desk = Dispatcher(engines, config, checker)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for queue in desk.queues.values():
            queue.start()
        yield
        for queue in desk.queues.values():
            await queue.close()

    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Machine translation with attention that you can inspect and constrain",
        docs_url=None,  # FastAPI's documentation pages load scripts from another host; ours is docs.html
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": "."}],  # the folder of openapi.json: a proxy may serve it under a path prefix
        lifespan=lifespan,
    )
    app.state.desk = desk
    add_handlers(app)
    _add_translate(app, desk, config)
    _add_score(app, desk, config)
    served_check = hook("served_check")
    if served_check is not None:
        served_check.add_route(app, desk, checker, config, _ERROR_RESPONSES)
    _add_facts(app, desk, config)
    _add_models(app, desk, config, checker)
    _add_page(app)
    if config.allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
            expose_headers=["Retry-After"],
        )
    # The checks of all requests run before CORS because they are added later.
    app.add_middleware(RequestMiddleware, config=config)
    return app


def _add_translate(app: FastAPI, desk: Dispatcher, config: ServeConfig) -> None:
    @app.post(
        "/translate",
        response_model=schemas.TranslateAnswer,
        responses={
            200: {
                "description": "The translations. With `stream`, JSON Lines: one line per sentence as soon "
                "as it is translated, then a line with `done` and `texts`. A failed sentence has `error`.",
                "content": {NDJSON: {"schema": {"type": "string"}}},
            },
            **_ERROR_RESPONSES,
        },
    )
    async def translate(request: Request, asked: schemas.TranslateRequest) -> Response:
        """Translate texts, optionally with user-specified fertilities.

        The answer contains scores, alignments and attention.
        """
        # Check all limits before the first sentence enters the queue.
        engine = desk.engine(asked.model)
        for name, value in (("num_return", asked.num_return), ("beam_size", asked.beam_size or 1)):
            if value > config.max_beam_size:
                raise HTTPException(422, f"{name} = {value}: expected at most {config.max_beam_size}")
        texts = split_texts(
            [asked.text or ""] if asked.texts is None else asked.texts,
            asked.split,
            config,
            asked.language or engine.language,
        )
        jobs = _jobs(asked, texts, engine)
        # Lengths in words are sufficient to sort a batch; tokenization takes place in the engine's thread.
        lengths = [len(split_whitespace(job.text)) for job in jobs]
        settings = SearchSettings(asked.num_return, asked.beam_size, asked.tokenized)
        futures = desk.queues[engine.name].submit(jobs, settings, lengths)
        if asked.stream:
            lines = _lines(futures, texts, config.request_timeout)
            return StreamingResponse(lines, media_type=NDJSON)
        answers = await collect_answers(request, futures, config.request_timeout)
        sentences = [
            {"sentence": number, "text_index": place, **answer}
            for number, ((place, _), answer) in enumerate(zip(texts.sentences, answers, strict=True))
        ]
        best = [answer["text"] for answer in answers]
        return JSONResponse(
            _header(Translations) | {"model": engine.name, "sentences": sentences, "texts": texts.join(best)}
        )


def _jobs(asked: schemas.TranslateRequest, texts: SplitTexts, engine: ModelServer) -> list[SentenceJob]:
    """Return the sentences to translate, with their fertilities."""
    count = len(texts.sentences)
    for fertility in asked.fertilities:
        if fertility.sentence >= count:
            raise HTTPException(
                422,
                f"a fertility for sentence {fertility.sentence}: there are {count} sentences, counted from 0",
            )
    jobs: list[SentenceJob] = []
    for number, (_, sentence) in enumerate(texts.sentences):
        words = [word for word in asked.fertilities if word.sentence == number]
        bounds = tuple((word.word, word.lower, word.upper) for word in words)
        jobs.append(SentenceJob(sentence.text, bounds, asked.attention))
    return jobs


async def _lines(futures: Sequence[Any], texts: SplitTexts, seconds: float) -> AsyncIterator[str]:
    def line(content: Any) -> str:
        return format_json(content, separators=(",", ":")) + "\n"

    # A sentence that failed remains empty in the joined text.
    best = ["" for _ in futures]
    async for number, answer in stream_answers(futures, seconds):
        place, sentence = texts.sentences[number]
        position = {"sentence": number, "text_index": place}
        if isinstance(answer, dict):
            best[number] = answer["text"]
            yield line(_header(Translation) | position | answer)
            continue
        if isinstance(answer, HTTPException):
            failure = {"error": answer.detail}
        elif isinstance(answer, RegardError):
            failure = {"error": str(answer)}
        else:
            failure = json.loads(bytes(unexpected_error_response(answer).body))
        yield line({**position, "source": sentence.text, **failure})
    yield line({"done": True, "texts": texts.join(best)})


def _header(result: type[Result]) -> dict[str, Any]:
    """Return the name and the version of the schema of a result."""
    return {"schema": result.schema, "schema_version": SCHEMA_VERSION}


def _add_score(app: FastAPI, desk: Dispatcher, config: ServeConfig) -> None:
    @app.post("/score", response_model=schemas.ScoreAnswer, responses=_ERROR_RESPONSES)
    async def score(request: Request, asked: schemas.ScoreRequest) -> Response:
        """Compute the log-probabilities of given translations, token by token."""
        engine = desk.engine(asked.model)
        jobs = pair_jobs(asked.pairs, config)
        lengths = [len(split_whitespace(job.source)) + len(split_whitespace(job.target)) for job in jobs]
        futures = desk.queues[engine.name].submit(jobs, ScoreSettings(asked.tokenized), lengths)
        scores = await collect_answers(request, futures, config.request_timeout)
        return JSONResponse(_header(Scores) | {"model": engine.name, "sentences": scores})


def _add_facts(app: FastAPI, desk: Dispatcher, config: ServeConfig) -> None:
    @app.post("/split", response_model=schemas.SplitAnswer, responses=_error_responses(400, 413, 415, 422))
    async def split(asked: schemas.SplitRequest) -> Response:
        """Split a text into sentences."""
        check_request_texts([asked.text], config)
        sentences = split_sentences(asked.text, language=asked.language)
        return JSONResponse({"sentences": [sentence.model_dump() for sentence in sentences]})

    @app.get("/health", response_model=schemas.Health, responses=_error_responses())
    async def health() -> Response:
        """Return the status of the server."""
        waiting = sum(len(queue.waiting) for queue in desk.queues.values())
        return JSONResponse(
            {"status": "ok", "version": __version__, "models": list(desk.engines), "waiting": waiting}
        )


def _add_models(app: FastAPI, desk: Dispatcher, config: ServeConfig, checker: Any) -> None:
    @app.get("/models", response_model=schemas.ModelsAnswer, responses=_error_responses())
    async def models() -> Response:
        """Return the models, the detectors and the limits of the server."""
        limits = {
            name: value
            for name, value in asdict(config).items()
            if name.startswith("max_") or name == "request_timeout"
        }
        facts = [{"name": engine.name, **engine.properties} for engine in desk.engines.values()]
        checks = None if checker is None else checker.describe()
        return JSONResponse({"models": facts, "checks": checks, "limits": limits})


def _add_page(app: FastAPI) -> None:
    """Add routes for the page at `/`, the page of the API at `/docs`, and their files."""
    for package in ("regard.reporting", "regard.extensions.serve"):
        for file in (files(package) / "assets").iterdir():
            path = {"index.html": "", "docs.html": "docs"}.get(file.name, file.name)
            app.add_route(f"/{path}", lambda _, path=str(file): FileResponse(path), include_in_schema=False)
