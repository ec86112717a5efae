"""Checks of all requests, and error responses, which have the same JSON form for all errors.

The check of host names protects against DNS rebinding: an attacker makes the name of a web page point to this
machine. The page then sends requests under that name, and the browser treats the answers as same-origin, so
that CORS does not block them. Only the header Host reveals the foreign name.
"""

import ipaddress
import logging
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.extensions.serve.config import ServeConfig

_log = logging.getLogger(__name__)
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class ErrorResponse(BaseModel):
    """An error; all error responses have this form."""

    error: str = Field(description="Error message for the user.")
    identifier: str | None = Field(
        None, description="Identifier of an unexpected error, also in the server's log."
    )


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """Return an error response; `more` are additional fields of its JSON object."""
    # A lone surrogate in the message, copied from the request, cannot be encoded.
    readable = message.encode("utf-8", "replace").decode("utf-8")
    return JSONResponse({"error": readable, **more}, status, dict(headers or {}))


def unexpected_error_response(error: BaseException) -> JSONResponse:
    """Return the response to an unexpected error, with an identifier under which the log has the cause."""
    identifier = uuid.uuid4().hex[:12]
    _log.error("unexpected error %s", identifier, exc_info=error)
    return error_response(
        500, "internal server error: see the server's log for this identifier", identifier=identifier
    )


def add_handlers(app: FastAPI) -> None:
    """Make an application convert all errors to error responses of the same form."""

    async def answer(_: Request, error: Exception) -> Response:
        if isinstance(error, StarletteHTTPException):
            return error_response(error.status_code, error.detail, error.headers)
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            if first["type"] == "json_invalid":
                place = f"{first['ctx']['error']} at character {first['loc'][-1]}"
                return error_response(400, f"the body is not valid JSON: {place}")
            return error_response(422, "; ".join(_sentence(detail) for detail in error.errors()[:3]))
        if isinstance(error, ClientDisconnect):
            # The status of a closed connection in nginx; no client receives it.
            return Response(status_code=499)
        return error_response(422, str(error))

    for kind in (StarletteHTTPException, RequestValidationError, ClientDisconnect, RegardError):
        app.add_exception_handler(kind, answer)


def _sentence(error: Mapping[str, Any]) -> str:
    """Return a validation error in words: its location in the body and pydantic's message."""
    parts = [part for part in error["loc"] if part != "body"]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    message = str(error["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}" if place else message


def is_allowed_host(header: str | None, config: ServeConfig) -> bool:
    """Return whether a request with a header Host is answered.

    An IP address is always accepted: an attacker's page has a name. A request without the header is accepted,
    too, because no browser omits it.

    Args:
        header: The header, None without one.
        config: The listening address, and the allowed names; `*` allows all.
    """
    if header is None or "*" in config.allow_hosts:
        return True
    names = {"localhost", *(name.lower().rstrip(".") for name in (config.host, *config.allow_hosts))}
    # A server on all addresses is also reached by the name of the machine.
    if config.host in ("0.0.0.0", "::"):
        names.add(socket.gethostname().lower())
    try:
        name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
        return name in names or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


@dataclass(eq=False)
class RequestMiddleware:
    """ASGI middleware that checks requests and adds security headers to answers.

    It is plain ASGI middleware, so that it can stream answers and forwards the disconnection of a client.

    Args:
        app: The application.
        config: The allowed hosts, and the maximum size of a body.
    """

    app: ASGIApp
    config: ServeConfig

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answering, size = False, 0

        async def received() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.config.max_request_bytes:
                # The connection is closed because the rest of the body is not read.
                limit = f"the body is larger than {self.config.max_request_bytes} bytes"
                raise HTTPException(413, limit, {"connection": "close"})
            return message

        async def sent(message: Message) -> None:
            nonlocal answering
            if message["type"] == "http.response.start":
                answering = True
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        try:
            refusal = self._refusal(scope)
            await (refusal or self.app)(scope, received, sent)
        except Exception as error:
            if answering:  # a part of the answer has been sent, so an error response is no longer possible
                raise
            await unexpected_error_response(error)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Return the error response to a request with a wrong header, None for other requests."""
        headers = Headers(scope=scope)
        host = headers.get("host")
        if not is_allowed_host(host, self.config):
            return error_response(
                421,
                f"the host name {str(host)[:100]!r} is not allowed: use the address of the server, or start "
                "it with --allow-hosts NAME",
            )
        # Browsers send other content types from foreign origins without a preflight request.
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            return error_response(415, "the header Content-Type must be application/json")
        return None
