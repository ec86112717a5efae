"""What stands around every request: its size and kind, headers that keep a browser safe, the clock.

It is plain ASGI, so that an answer may be streamed through it and a client that goes away is noticed.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.hosts import Hosts
from regard.server.refusal import Refusal, problem, unexpected

__all__ = ["Guard"]

_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
Told = Callable[[Scope, int, float], None]


class Guard:
    """Stands around an application.

    Args:
        app: The application.
        posts: The paths that take a body.
        hosts: The names under which it may be asked.
        body: The most bytes of a request.
        seconds: How long its body may take to come.
        told: Is called with the scope, the status and the seconds of each answer.
    """

    def __init__(
        self, app: ASGIApp, posts: Collection[str], hosts: Hosts, body: int, seconds: float, told: Told
    ) -> None:
        """Keep the limits."""
        self.app, self._posts, self._hosts = app, posts, hosts
        self._body, self._seconds, self._told = body, seconds, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            elif head_alone:
                message = {**message, "body": b""}
            await send(message)

        head_alone = scope["method"] == "HEAD"
        try:
            if (refused := self._hosts.refusal(scope)) is not None:
                raise Refusal(421, refused)
            body = await self._read(scope, receive)
            if body is not None:
                # What GET answers is answered to HEAD, without its body.
                asked = {**scope, "method": "GET"} if head_alone else scope
                await self.app(asked, _replay(body, receive), sent)
        except Refusal as refusal:
            await problem(refusal.status, refusal.message, refusal.headers)(scope, receive, sent)
        except Exception as error:
            if status:  # half an answer is out: all that is left is to break off
                raise
            await unexpected(error)(scope, receive, sent)
        finally:
            self._told(scope, status, time.monotonic() - began)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; none if the client went away before it was there.

        Raises:
            Refusal: if it is too large, comes too slowly, or is not said to be JSON.
        """
        headers = {name.lower(): value for name, value in scope["headers"]}
        # Where there is no such address, or no such method, that is what is wrong, whatever the body is.
        if scope["method"] == "POST" and scope["path"] in self._posts:
            # A page of another origin can send other kinds without asking.
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refusal(415, "expected a body of the kind application/json (the header Content-Type)")
        too_large = Refusal(413, f"the body is larger than {self._body} bytes", {"connection": "close"})
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._body:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
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
            raise Refusal(
                408, f"the body did not come within {self._seconds:g} s", {"connection": "close"}
            ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read, and then whatever else comes."""
    pending: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
