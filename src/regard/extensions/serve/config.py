"""The settings of a server: its address, its batching and its limits, and the host names of its requests.

The check of host names protects against DNS rebinding: an attacker makes the name of a web page point to this
machine. The page then sends requests under that name, and the browser treats the answers as same-origin, so
that CORS does not block them. Only the header Host reveals the foreign name.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers

from regard.config import configclass, option

__all__ = ["AllowedHosts", "ServeConfig"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class AllowedHosts:
    """The host names that requests may use.

    Args:
        host: The address on which the server listens.
        allowed: Additional names or addresses; `*` allows all.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        """Collect the names."""
        name = _normalize_host(host)
        self._any = "*" in allowed
        self._names = {name, *map(_normalize_host, allowed)}
        # A server on all addresses is also reached by the name of the machine.
        if name in ("0.0.0.0", "::", ""):
            self._names |= {socket.gethostname().lower()}
        if name in _LOOPBACK:
            self._names |= set(_LOOPBACK)

    def rejection_reason(self, scope: Any) -> str | None:
        """Return why a request is rejected, or None if it is accepted.

        The IP address to which the client connected is always accepted: an attacker's page has a name, not
        this address. A request without the header Host is accepted, too, because no browser omits it.

        Args:
            scope: ASGI scope of the request.
        """
        header = Headers(scope=scope).get("host")
        if header is None or self._any:
            return None
        # Without the port; an IPv6 address is in brackets.
        name = _normalize_host(header.partition("]" if header.startswith("[") else ":")[0])
        if name in self._names:
            return None
        server = scope.get("server")
        here = _normalize_host(server[0]) if server else ""
        if name == here or (here in _LOOPBACK and name in _LOOPBACK):
            return None
        return (
            f"the host name {name[:100]!r} is not allowed: use the address of the server, or start it with "
            "--allow-hosts NAME"
        )


def _normalize_host(name: str) -> str:
    """Return the canonical form of a name: lower case, IP addresses normalized."""
    name = name.strip().lower().strip("[]").rstrip(".")
    address = _address(name)
    if address is None:
        return name
    # ::ffff:127.0.0.1 and 127.0.0.1 are the same address.
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _address(name: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address | None":
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


@configclass
class ServeConfig:
    """The settings of `regard serve`."""

    host: str = option(
        default="127.0.0.1", help="Address to listen on. 0.0.0.0 listens on all addresses of the machine."
    )
    port: int = option(default=8000, help="Port to listen on. 0 chooses a free port.", ge=0, le=65535)
    allow_origins: tuple[str, ...] = option(
        default=(),
        help="Origins whose pages may use the API, such as https://example.org. * allows all origins.",
    )
    allow_hosts: tuple[str, ...] = option(
        default=(),
        help="Host names that requests may use in addition to the listening address. * allows all names.",
    )
    num_threads: int | None = option(
        default=None,
        help="Number of CPU threads per model. Default: half of the processors.",
        ge=1,
        le=1_024,
    )
    max_connections: int = option(
        default=500,
        help="Maximum number of open connections; more are answered with 503.",
        ge=1,
        le=100_000,
    )
    batch_window: float = option(
        default=4.0,
        help="Time in milliseconds that a batch waits for another sentence; four times this in total.",
        ge=0,
        le=60_000,
    )
    batch_size: int = option(default=32, help="Maximum number of sentences in a batch.", ge=1, le=100_000)
    max_queued_sentences: int = option(
        default=1000, help="Maximum number of sentences that wait for a model.", ge=1, le=1_000_000
    )
    request_timeout: float = option(
        default=30.0, help="Maximum time of a request in seconds.", gt=0, le=86_400
    )
    max_request_bytes: int = option(
        default=256 * 1024, help="Maximum size of a request's body in bytes.", ge=1024, le=1_073_741_824
    )
    max_characters: int = option(
        default=20_000, help="Maximum number of characters in the texts of a request.", ge=1, le=100_000_000
    )
    max_sentences: int = option(
        default=200, help="Maximum number of sentences in a request.", ge=1, le=1_000_000
    )
    max_words: int = option(
        default=150,
        help="Maximum number of words in a sentence; the model accepts up to four tokens per word.",
        ge=1,
        le=100_000,
    )
    max_beam_size: int = option(
        default=10,
        help="Maximum beam size and maximum number of translations of a sentence.",
        ge=1,
        le=1_000,
    )

    def __post_init__(self) -> None:
        """Check that the queue has room for the largest request."""
        if self.max_queued_sentences < self.max_sentences:
            raise ValueError(
                f"max_queued_sentences = {self.max_queued_sentences} has no room for a request of "
                f"max_sentences = {self.max_sentences}: expected max_queued_sentences >= max_sentences"
            )
