"""Middleware for all requests: limits of size and time, the content type, and security headers.

It is plain ASGI middleware, so that it can stream answers and forwards the disconnection of a client.
"""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.extensions.serve.config import AllowedHosts
from regard.extensions.serve.errors import RequestError, error_response, unexpected_error_response

__all__ = ["RequestMiddleware"]

_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class RequestMiddleware:
    """ASGI middleware that checks requests and adds security headers to answers.

    Args:
        app: The application.
        hosts: Host names that requests may use.
        max_body_size: Maximum size of a body in bytes.
        seconds: Maximum time in seconds to receive a body.
    """

    def __init__(self, app: ASGIApp, hosts: AllowedHosts, max_body_size: int, seconds: float) -> None:
        """Store the limits."""
        self.app, self._hosts, self._body, self._seconds = app, hosts, max_body_size, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answering = False

        async def sent(message: Message) -> None:
            nonlocal answering
            if message["type"] == "http.response.start":
                answering = True
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        try:
            if (refused := self._hosts.rejection_reason(scope)) is not None:
                raise RequestError(421, refused)
            body = await self._read(scope, receive)
            if body is not None:
                await self.app(scope, _replay(body, receive), sent)
        except RequestError as refusal:
            await error_response(refusal.status, refusal.message, refusal.headers)(scope, receive, sent)
        except Exception as error:
            if answering:  # a part of the answer has been sent, so an error response is no longer possible
                raise
            await unexpected_error_response(error)(scope, receive, sent)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body, or None if the client disconnects before it is complete.

        Raises:
            RequestError: if the body is too large, arrives too slowly, or has another content type than JSON.
        """
        headers = {name.lower(): value for name, value in scope["headers"]}
        if scope["method"] == "POST":
            # Browsers send other content types from foreign origins without a preflight request.
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                raise RequestError(415, "the header Content-Type must be application/json")
        # The connection is closed because the rest of the body is not read.
        too_large = RequestError(413, f"the body is larger than {self._body} bytes", {"connection": "close"})
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._body:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                # The header Content-Length may be missing or wrong, so the received bytes are counted, too.
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._body:
                        raise too_large
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise RequestError(
                408, f"the body was not received within {self._seconds:g} s", {"connection": "close"}
            ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that yields the body that was read, and then further messages."""
    pending: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
