"""Broken policies, broken code and broken requests: the filter fails closed and goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.policies import simple_policy
from e2e.proxy import Proxy, request_head, run_mitmdump


def test_a_broken_policy_ends_mitmdump_with_a_message_for_every_bad_place(tmp_path: Path) -> None:
    policy = simple_policy(tmp_path, "mailto:x", "fine.test/", {"expression": "red.test/", "colour": "red"})
    ended = run_mitmdump(tmp_path, "--listen-host", "127.0.0.1", "--listen-port", "0", policy=policy)
    assert ended.returncode != 0
    assert all(f"rules.yaml:{line}: " in ended.stdout for line in (2, 5))
    assert "Traceback" not in ended.stdout


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_exception_in_the_filter_blocks_that_request_and_no_other(
    start: Callable[..., Proxy], origin: Origin, scheme: str
) -> None:
    proxy = start(scripts=["raising.py"])
    with origin.watch() as arrived:
        answers = [proxy.get(f"{scheme}://good.test/explode") for _ in range(3)]
    assert {answer.status_code for answer in answers} == {403}
    assert arrived.connections == 0
    proxy.log.wait_for("raised by the test")
    assert proxy.get(f"{scheme}://good.test/").status_code == 200
    assert proxy.get(f"{scheme}://ads.test/").status_code == 403


KIB = 1024
LONG = 64 * KIB

#: requests to a host that stands where the %s is
HOSTILE = {
    "a path of 64 KiB": b"GET http://%s/" + b"a" * LONG + b" HTTP/1.1\r\n\r\n",
    "a query of 64 KiB": b"GET http://%s/?" + b"a=1&" * (LONG // 4) + b" HTTP/1.1\r\n\r\n",
    "64 KiB of slashes": b"GET http://%s/" + b"/" * LONG + b" HTTP/1.1\r\n\r\n",
    "64 KiB of segments": b"GET http://%s/" + b"a/" * (LONG // 2) + b" HTTP/1.1\r\n\r\n",
    "64 KiB of dot segments": b"GET http://%s/" + b"a/../" * (LONG // 5) + b" HTTP/1.1\r\n\r\n",
    "nested escapes": b"GET http://%s/%%" + b"25" * (LONG // 2) + b" HTTP/1.1\r\n\r\n",
    "many escapes": b"GET http://%s/" + b"%%25" * (LONG // 3) + b" HTTP/1.1\r\n\r\n",
    "64 KiB of labels": b"GET http://" + b"a." * (LONG // 2) + b"%s/ HTTP/1.1\r\n\r\n",
    "a label of 64 KiB": b"GET http://" + b"a" * LONG + b".%s/ HTTP/1.1\r\n\r\n",
    "64 KiB of escaped labels": b"GET http://" + b"%%41." * (LONG // 4) + b"%s/ HTTP/1.1\r\n\r\n",
    "64 KiB of user": b"GET http://" + b"u@" * (LONG // 2) + b"%s/ HTTP/1.1\r\n\r\n",
    "a port of 1000 digits": b"GET http://%s:" + b"9" * 1000 + b"/ HTTP/1.1\r\n\r\n",
    "1000 Host headers": b"GET http://%s/ HTTP/1.1\r\n" + b"Host: h.test\r\n" * 1000 + b"\r\n",
    "a Host header of 64 KiB": b"GET http://%s/ HTTP/1.1\r\nHost: " + b"a." * (LONG // 2) + b"test\r\n\r\n",
    "10000 headers": b"GET http://%s/ HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    "bytes that are not UTF-8 in the path": b"GET http://%s/\xff\xfe\x80 HTTP/1.1\r\n\r\n",
    "bytes that are not UTF-8 in the host": b"GET http://\xff\xfe.%s/ HTTP/1.1\r\n\r\n",
    "bytes that are not UTF-8 in Host": b"GET http://%s/ HTTP/1.1\r\nHost: \xff\xfe\x80\r\n\r\n",
    "bytes that are not UTF-8 in Accept": b"GET http://%s/ HTTP/1.1\r\nAccept: \xff\xfe\x80\r\n\r\n",
    "a zero byte in the path": b"GET http://%s/\x00 HTTP/1.1\r\n\r\n",
    "a zero byte in the host": b"GET http://\x00.%s/ HTTP/1.1\r\n\r\n",
    "a zero byte in Host": b"GET http://%s/ HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "every byte": b"GET http://%s/" + bytes(set(range(256)) - {10, 13, 32, 37}) + b" HTTP/1.1\r\n\r\n",
    "a bracket that does not close": b"GET http://[::1/%s HTTP/1.1\r\n\r\n",
    "a space in the target": b"GET http://%s/ / HTTP/1.1\r\n\r\n",
    "an A-label that is none": b"GET http://xn--\xc3\xa9.xn--zzzzzz99.%s/ HTTP/1.1\r\n\r\n",
    "not HTTP": b"\x00\x01\xff%s\r\n\r\n",
    "a TLS record that is none": b"\x16\x03\x01\x00\x08%s\r\n\r\n",
}


def provoke(proxy: Proxy, request: bytes) -> bytes:
    """Whatever the proxy answers, up to the end of the connection."""
    with proxy.connect() as connection:
        try:
            connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            return connection.recv(64 * KIB)
        except ConnectionError:
            return b""


def test_no_hostile_request_for_a_blocked_host_gets_through(proxy: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived:
        for request in HOSTILE.values():
            provoke(proxy, request % b"ads.test")
    assert arrived.connections == 0


def test_a_flood_of_hostile_requests_leaves_the_proxy_serving(proxy: Proxy) -> None:
    start = len(proxy.log)
    requests = [request % host for request in HOSTILE.values() for host in (b"good.test", b"ads.test")]
    with ThreadPoolExecutor(16) as threads:
        replies = threads.map(lambda request: provoke(proxy, request), requests)
        for _ in range(20):
            assert proxy.get("http://good.test/").status_code == 200
            assert proxy.get("https://ads.test/").status_code == 403
        assert all(reply == b"" or reply.startswith(b"HTTP/1.") for reply in replies)
    assert proxy.process.poll() is None
    assert "Traceback" not in proxy.log.text(start)
    assert proxy.send(request_head(b"http://ads.test/", b"ads.test")).status == 403
