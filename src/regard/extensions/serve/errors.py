"""Error responses: a status and a message, in the same JSON form for all errors."""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from regard.errors import RegardError

__all__ = [
    "ClientDisconnectedError",
    "ErrorResponse",
    "RequestError",
    "add_handlers",
    "error_response",
    "unexpected_error_response",
]

_log = logging.getLogger(__name__)
_SENTENCES = {
    400: "the body is not valid JSON",
    404: "there is no such path",
    405: "this path does not support the method",
}


class ErrorResponse(BaseModel):
    """An error; all error responses have this form."""

    error: str = Field(description="Error message for the user.")
    identifier: str | None = Field(
        None, description="Identifier of an unexpected error, also in the server's log."
    )


class RequestError(Exception):
    """An error that ends a request with an error response.

    Args:
        status: HTTP status.
        message: Message for the user: the problem and the expectation.
        headers: Headers of the response.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Store the status, the message and the headers."""
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class ClientDisconnectedError(Exception):
    """The client has disconnected."""


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
    """Add handlers that convert all errors of an application to error responses of the same form."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestError)
        return error_response(error.status, error.message, error.headers)

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        messages = [_sentence(detail) for detail in error.errors()[:3]]
        if any(detail["type"] == "json_invalid" for detail in error.errors()):
            return error_response(400, f"{_SENTENCES[400]}: {messages[0]}")
        return error_response(422, "; ".join(messages))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        message = _SENTENCES.get(error.status_code, str(error.detail))
        return error_response(error.status_code, message, error.headers)

    async def mistake(_: Request, error: Exception) -> JSONResponse:
        return error_response(422, str(error))

    async def gone(_: Request, error: Exception) -> Response:
        # The status of a closed connection in nginx; no client receives it.
        return Response(status_code=499)

    app.add_exception_handler(ClientDisconnectedError, gone)
    app.add_exception_handler(RequestError, refused)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RegardError, mistake)


def _sentence(error: Mapping[str, Any]) -> str:
    """Return a validation error in words: its location in the body and pydantic's message."""
    parts = [part for part in error["loc"] if part != "body"]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    if error["type"] == "json_invalid":
        return f"character {parts[0]}: {str(error.get('ctx', {}).get('error', 'wrong')).lower()}"
    message = str(error["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}" if place else message
