"""A client that opens more connections than the system allows keeps nobody else out."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.origin import LOOPBACK, Origin
from e2e.policies import simple_policy
from e2e.proxy import PATIENCE, Proxy, read_answer, request_head

resource = pytest.importorskip("resource", reason="on Windows, sockets are no files")

GREEDY = "127.0.0.2"
KEPT = b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n"


@pytest.mark.parametrize(
    ("most", "clients", "hosts"),
    [
        pytest.param(512, 512, 0, id="to the proxy"),
        pytest.param(256, 10, 32, id="to servers", marks=pytest.mark.thorough),
    ],
)
def test_the_client_with_the_most_connections_loses_some(
    start: Callable[..., Proxy], tmp_path: Path, origin: Origin, most: int, clients: int, hosts: int
) -> None:
    """``most`` is how many files the proxy may have open."""
    proxy = start(policy=simple_policy(tmp_path / "policy", "ads.test/"))
    limits = resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (most, limits[1]))
    with ExitStack() as opened:
        patient = opened.enter_context(proxy.connect())
        patient.sendall(KEPT)
        assert read_answer(patient).status == 200
        for number in range(clients):
            client = socket.create_connection((LOOPBACK, proxy.port), PATIENCE, (GREEDY, 0))
            opened.enter_context(client)
            for host in range(hosts):
                name = b"h%d-%d.test" % (number, host)
                try:
                    client.sendall(b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n" % (name, name))
                    read_answer(client)
                except OSError:
                    break
        proxy.log.wait_for(rf"as many files .* ended \d+ of \d+ connections of {GREEDY}")
        assert proxy.send(request_head(b"http://good.test/", b"good.test")).status == 200
        patient.sendall(KEPT)
        assert read_answer(patient).status == 200
    assert f"connections of {LOOPBACK}" not in proxy.log.text()
