"""What a request is refused with: a status and a sentence, in the one shape of all answers but success."""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from regard.errors import RegardError

__all__ = ["Refusal", "add_handlers", "problem", "unexpected"]

_log = logging.getLogger(__name__)
_SENTENCES = {
    400: "the body is not JSON that can be read",
    404: "there is nothing at this address",
    405: "this address has no such method",
}


class Refusal(Exception):
    """A request that cannot be answered.

    Args:
        status: The HTTP status.
        message: A sentence for a person: what came, what was expected.
        headers: Of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Keep all three."""
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def problem(status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any) -> JSONResponse:
    """The one shape."""
    # Half a character of a pair (a lone surrogate) in the message could not be written.
    readable = message.encode("utf-8", "replace").decode("utf-8")
    return JSONResponse({"error": readable, **more}, status, dict(headers or {}))


def unexpected(error: BaseException) -> JSONResponse:
    """The answer to a failure that nobody foresaw: an identifier, which the log has beside the cause."""
    identifier = uuid.uuid4().hex[:12]
    _log.error("unexpected failure %s", identifier, exc_info=error)
    return problem(500, "something went wrong here; the log has the cause", identifier=identifier)


def add_handlers(app: FastAPI) -> None:
    """Give every error of an application the one shape."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refusal)
        return problem(error.status, error.message, error.headers)

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = [_sentence(one) for one in error.errors()[:3]]
        if any(one["type"] == "json_invalid" for one in error.errors()):
            return problem(400, f"{_SENTENCES[400]}: {found[0]}")
        return problem(422, "; ".join(found))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if "GET" in headers.get("Allow", ""):
            headers["Allow"] += ", HEAD"
        return problem(error.status_code, _SENTENCES.get(error.status_code, str(error.detail)), headers)

    async def mistake(_: Request, error: Exception) -> JSONResponse:
        return problem(422, str(error))

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RegardError, mistake)


def _sentence(error: Mapping[str, Any]) -> str:
    """One mistake of a body: where it is, what was expected."""
    place = ".".join(str(part) for part in error["loc"] if part != "body")
    if error["type"] == "json_invalid":
        return f"character {place}: {str(error.get('ctx', {}).get('error', 'wrong')).lower()}"
    message = str(error["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}" if place else message
