"""Check the host names under which a server is addressed, as a protection against DNS rebinding.

In DNS rebinding, an attacker makes the name of a web page point to this machine. The page then sends requests
under that name, and the browser treats the answers as same-origin, so that CORS does not block them. Only the
header Host reveals the foreign name.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers

__all__ = ["AllowedHosts", "check_host"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class AllowedHosts:
    """The host names that requests may use.

    Args:
        host: The address on which the server listens.
        allowed: Additional names or addresses; `*` allows all.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        """Collect the names."""
        own = _normalize_host(host)
        self._any = "*" in allowed
        self._names = {own, *map(_normalize_host, allowed)}
        # A server on all addresses is also reached by the name of the machine.
        if own in ("0.0.0.0", "::", ""):
            self._names |= {socket.gethostname().lower()}
        if own in _LOOPBACK:
            self._names |= set(_LOOPBACK)

    def rejection_reason(self, scope: Any) -> str | None:
        """Return why a request is rejected, or None if it is accepted.

        The IP address to which the client connected is always accepted: an attacker's page has a name, not
        this address. A request without the header Host is accepted, too, because no browser omits it.

        Args:
            scope: ASGI scope of the request.
        """
        given = Headers(scope=scope).get("host")
        if given is None or self._any:
            return None
        name = _normalize_host(_without_port(given))
        if name in self._names:
            return None
        server = scope.get("server")
        here = _normalize_host(server[0]) if server else ""
        if name == here or (here in _LOOPBACK and name in _LOOPBACK):
            return None
        return (
            f"the host name {name[:100]!r} is not allowed: use the address of the server, or start it with "
            "--allow-host NAME"
        )


def check_host(name: str) -> None:
    """Check that a text is a host name or an IP address.

    Raises:
        ValueError: if it is empty, or has a scheme, a port or a path.
    """
    wrong = not name or any(one in "/@?# \t" for one in name)
    if wrong or (name.count(":") == 1) or (":" in name and _address(name.strip("[]")) is None):
        raise ValueError(
            f"allow_hosts: {name!r} is not a host name: expected a name or an address such as "
            "translate.example.org, without scheme and port, or * for all names"
        )


def _without_port(host: str) -> str:
    """Return the host of a Host header without the port, such as `[::1` for `[::1]:8000`."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]


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
