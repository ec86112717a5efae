"""Which names a server answers to.

A page of another origin whose name is made to point at this machine (DNS rebinding) asks under that name. Its
browser takes the answer for one of the page's own origin, so no rule for other origins keeps it out: the name
in the header Host does.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers

__all__ = ["Hosts", "check_host"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Hosts:
    """The names under which a server may be asked.

    Args:
        host: The address that it listens on.
        allowed: More names or addresses; *: any.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        """Collect the names."""
        own = _plain(host)
        self._any = "*" in allowed
        self._names = {own, *map(_plain, allowed)}
        if own in ("0.0.0.0", "::", ""):
            self._names |= {socket.gethostname().lower()}
        if own in _LOOPBACK:
            self._names |= set(_LOOPBACK)

    def refusal(self, scope: Any) -> str | None:
        """Why a request is refused; none where it is not.

        The address that a connection came to is a name, too: a page cannot make its own name an address.
        A request without the header, which HTTP/1.1 asks for, comes from no browser.
        """
        given = Headers(scope=scope).get("host")
        if given is None or self._any:
            return None
        name = _plain(_without_port(given))
        if name in self._names:
            return None
        server = scope.get("server")
        here = _plain(server[0]) if server else ""
        if name == here or (here in _LOOPBACK and name in _LOOPBACK):
            return None
        return (
            f"this server is not called {name[:100]!r}: ask under its own address, or start it with "
            "--allow-host NAME"
        )


def check_host(name: str) -> None:
    """Refuse what can be no name of a host.

    Raises:
        ValueError: if it has a scheme, a port or a path.
    """
    wrong = not name or any(one in "/@?# \t" for one in name)
    if wrong or (name.count(":") == 1) or (":" in name and _address(name.strip("[]")) is None):
        raise ValueError(
            f"hosts: {name!r} is no name of a host: expected a name or an address alone, as "
            "translate.example.org, without scheme and port; *: any"
        )


def _without_port(host: str) -> str:
    """A header's name: `[::1]:8000` is `[::1]`."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]


def _plain(name: str) -> str:
    """A name in the one form in which names are compared."""
    name = name.strip().lower().strip("[]").rstrip(".")
    address = _address(name)
    if address is None:
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _address(name: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address | None":
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
