"""The server responds only to IP addresses and to its own host names."""

import socket

import pytest

from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.middleware import is_allowed_host

LISTENING = [
    ("127.0.0.1", (), "127.0.0.1:8000", True),
    ("127.0.0.1", (), "LOCALHOST.:9000", True),
    ("127.0.0.1", (), "[::1]:8000", True),
    ("127.0.0.1", (), "evil.example", False),
    ("127.0.0.1", (), "evil.example:8000", False),
    ("127.0.0.1", (), "127.0.0.1.evil.example", False),
    ("127.0.0.1", (), "localhost@evil.example", False),
    ("127.0.0.1", (), "[::1", False),
    ("127.0.0.1", (), "", False),
    ("127.0.0.1", (), None, True),
    ("127.0.0.1", ("Translate.example.org",), "translate.Example.Org:443", True),
    ("127.0.0.1", ("translate.example.org.",), "translate.example.org", True),
    ("127.0.0.1", ("translate.example.org",), "a.translate.example.org", False),
    ("127.0.0.1", ("*",), "evil.example", True),
    ("0.0.0.0", (), "192.168.1.5:8000", True),
    ("0.0.0.0", (), "evil.example", False),
    ("0.0.0.0", (), socket.gethostname(), True),
]


@pytest.mark.parametrize(("listens", "allowed", "host", "answered"), LISTENING)
def test_server_responds_only_to_addresses_and_its_own_names(listens, allowed, host, answered):
    assert is_allowed_host(host, ServeConfig(host=listens, allow_hosts=allowed)) == answered
