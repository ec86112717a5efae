"""The server responds only to its own host names."""

import socket

import pytest

from regard.extensions.serve.config import AllowedHosts


def scope(host, server=("192.168.1.5", 8000)):
    """Return the scope of a request with a Host header."""
    headers = [] if host is None else [(b"host", host.encode())]
    return {"type": "http", "headers": headers, "server": server}


@pytest.mark.parametrize(
    ("listens", "allowed", "host", "answered"),
    [
        ("127.0.0.1", (), "127.0.0.1:8000", True),
        ("127.0.0.1", (), "LOCALHOST.:9000", True),
        ("127.0.0.1", (), "[::1]:8000", True),
        ("127.0.0.1", (), "evil.example", False),
        ("127.0.0.1", (), "evil.example:8000", False),
        ("127.0.0.1", (), "127.0.0.1.evil.example", False),
        ("127.0.0.1", (), "localhost@evil.example", False),
        ("127.0.0.1", (), "", False),
        ("127.0.0.1", (), "10.0.0.1", False),
        ("127.0.0.1", (), None, True),
        ("127.0.0.1", ("translate.example.org",), "Translate.Example.Org:443", True),
        ("127.0.0.1", ("translate.example.org",), "a.translate.example.org", False),
        ("127.0.0.1", ("*",), "evil.example", True),
        ("0.0.0.0", (), "192.168.1.5:8000", True),
        ("0.0.0.0", (), "192.168.1.6:8000", False),
        ("0.0.0.0", (), "evil.example", False),
        ("0.0.0.0", (), "localhost", False),
        ("0.0.0.0", (), socket.gethostname(), True),
    ],
)
def test_server_responds_only_to_its_own_host_names(listens, allowed, host, answered):
    refusal = AllowedHosts(listens, allowed).rejection_reason(scope(host))
    assert (refusal is None) == answered
    assert answered or "--allow-hosts" in str(refusal)


def test_loopback_names_are_accepted_over_the_loopback_address():
    hosts = AllowedHosts("0.0.0.0")
    assert hosts.rejection_reason(scope("localhost:8000", ("127.0.0.1", 8000))) is None
    assert hosts.rejection_reason(scope("[::1]", ("::ffff:127.0.0.1", 8000))) is None
    assert hosts.rejection_reason(scope("evil.example", ("127.0.0.1", 8000))) is not None
