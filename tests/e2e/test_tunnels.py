"""Tunnels that mitmproxy would take for something other than HTTP: nothing of a blocked host or path gets through."""

from __future__ import annotations

from contextlib import suppress

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy

_REST = b" HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def send_through(proxy: Proxy, host: str, payload: bytes) -> bytes:
    """What comes back through a tunnel to port 80, until the proxy ends it or has nothing more to say."""
    received = b""
    with proxy.tunnel(host, 80) as connection, suppress(ConnectionError, TimeoutError):
        connection.settimeout(1)
        connection.sendall(payload)
        while chunk := connection.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize(
    "start", [b"\r\nGET ", b"\nGET ", b"\r\n\r\n\r\nGET ", b" GET ", b"G\r\nGET ", b"\x00GET ", b"GET\t"]
)
@pytest.mark.parametrize(("host", "path"), [("ads.test", b"/"), ("path.test", b"/secret/x")])
def test_octets_before_a_blocked_request_do_not_hide_it(
    proxy: Proxy, origin: Origin, host: str, path: bytes, start: bytes
) -> None:
    with origin.watch() as arrived:
        answer = send_through(proxy, host, start + path + _REST % host.encode())
    assert b"from the origin" not in answer
    assert arrived.connections == 0


@pytest.mark.parametrize("payload", [b"SSH-2.0-OpenSSH_9\r\n", b"\x05\x01\x00", b"EHLO x\r\n"])
def test_what_is_no_http_does_not_reach_a_blocked_host(proxy: Proxy, origin: Origin, payload: bytes) -> None:
    with origin.watch() as arrived:
        send_through(proxy, "ads.test", payload)
    assert arrived.connections == 0


def test_a_tunnel_that_carries_http_is_served(proxy: Proxy, origin: Origin) -> None:
    assert b"from the origin" in send_through(proxy, "good.test", b"GET /" + _REST % b"good.test")
