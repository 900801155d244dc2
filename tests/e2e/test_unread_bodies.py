"""A body that its origin does not read is never a request that nobody has decided."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.plain_origin import PlainOrigin
from e2e.proxy import Proxy, mitmdump, request_head
from evasion.driver import LONG, send
from evasion.entries import Entry, fields

INNER = b"GET /secret/inner HTTP/1.1\r\nHost: path.test\r\n\r\n"
_REQUEST = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.[01]\r\n(?:[!-~]+:[^\r\n]*\r\n)*\r\n")
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


class CarelessOrigin(PlainOrigin):
    """An origin that takes everything it is sent for requests, wherever in it they begin, and reads no body.

    It ends a connection where it is asked to, unless it is ``stubborn``.
    """

    def __init__(self, folder: Path, *, stubborn: bool) -> None:
        super().__init__(self._answer, folder, ["http/1.1"])
        self.is_stubborn = stubborn
        #: of every request: method and target
        self.requests: list[tuple[bytes, bytes]] = []

    def _answer(self, connection: socket.socket) -> None:
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
            while request := _REQUEST.search(received):
                received = received[request.end() :]
                self.requests.append((request[1], request[2]))
                is_last = not self.is_stubborn and _CLOSE.search(request[0])
                body = b"" if request[1] == b"HEAD" else b"ok"
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)
                if is_last:
                    _linger(connection)
                    return


def _linger(connection: socket.socket) -> None:
    """End a connection as RFC 9112, 9.6 has it: what still comes is dropped, so that the answer is not lost."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


#: those of one origin share its proxies
ORIGINS = [
    pytest.param(False, id="obeying", marks=[pytest.mark.thorough, pytest.mark.xdist_group("obeying origin")]),
    pytest.param(True, id="stubborn", marks=pytest.mark.xdist_group("stubborn origin")),
]


@pytest.fixture(scope="module", params=ORIGINS)
def careless(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[CarelessOrigin]:
    with CarelessOrigin(tmp_path_factory.mktemp("careless"), stubborn=request.param) as running:
        yield running


@pytest.fixture(
    scope="module", params=[False, pytest.param(True, marks=pytest.mark.thorough)], ids=["whole", "streamed"]
)
def is_streaming(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def filtering(
    tmp_path_factory: pytest.TempPathFactory, careless: CarelessOrigin, policy: Path, is_streaming: bool
) -> Iterator[Proxy]:
    options = {"stream_large_bodies": "1"} if is_streaming else {}
    folder = tmp_path_factory.mktemp("filtering")
    with mitmdump(folder, careless, policy=policy, options=options) as running:
        yield running


def payload(method: bytes, target: bytes, *, chunked: bool, expects: bytes, content: bytes) -> bytes:
    """A request in HTTP/1.1 whose body is another, and one more behind it on the client's connection."""
    told = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(content)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content) if chunked else content
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: good.test", told, *([expects] if expects else [])]
    return b"\r\n".join([*lines, b"", body]) + request_head(target.replace(b"/1", b"/2"), b"good.test")


def ways(method: bytes, body: bytes = INNER) -> Iterator[Entry]:
    """All the ways to send such a request."""
    rest: dict[str, Any] = {"tunnel": ("good.test", 443), "server_name": "good.test"}
    for chunked in (False, True):
        for expects in (
            *(b"", b"Expect: 100-continue", b"Expect: 100-continue\r\nExpect: 100-continue"),
            b"Authorization: NTLM TlRMTVNTUAABAAAA",
        ):
            how = {"chunked": chunked, "expects": expects, "content": body}
            yield Entry("http/1.1", "", f"{how}", payload(method, b"http://good.test/1", **how))
            yield Entry("https/1.1", "", f"{how}", payload(method, b"/1", **how), **rest)
    for how, more in {"told": [(b"content-length", b"%d" % len(body))], "untold": []}.items():
        head = fields(b"/1", b"good.test", *more, method=method, scheme=b"https")
        yield Entry("https/2", "", how, head, tunnel=("good.test", 443), body=body)
        head = fields(b"/1", b"good.test", *more, method=method)
        yield Entry("http/2", "", how, head, body=body)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"TRACE", b"get"])
def test_a_body_where_the_method_has_none_goes_nowhere(
    filtering: Proxy, careless: CarelessOrigin, method: bytes
) -> None:
    del careless.requests[:]
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(send, filtering), ways(method)))
    assert b"/secret/inner" not in {target for _, target in careless.requests}
    assert filtering.get("http://good.test/after").status_code == 200
    assert b"/after" in {target for _, target in careless.requests}


@pytest.mark.parametrize("body", [b'{"query": "a"}', b'{"a": 1}\n{"a": 2}\n', b"1"])
def test_the_body_of_a_get_in_which_no_request_can_be_read_arrives_and_nothing_follows_it(
    filtering: Proxy, careless: CarelessOrigin, body: bytes
) -> None:
    for entry in ways(b"GET", body):
        del careless.requests[:]
        send(filtering, entry, silence=LONG)
        follows = isinstance(entry.payload, bytes)
        assert careless.requests == [(b"GET", b"/1"), (b"GET", b"/2")][: 1 + follows], (entry.family, entry.spelling)


@pytest.mark.parametrize("method", [b"POST", b"DELETE", b"OPTIONS", b"FOO"])
def test_an_origin_that_reads_no_body_is_asked_for_nothing_else_by_that_connection(
    filtering: Proxy, careless: CarelessOrigin, method: bytes
) -> None:
    if careless.is_stubborn:
        pytest.skip("nobody can stop an origin that neither reads nor obeys")
    for entry in ways(method):
        del careless.requests[:]
        send(filtering, entry, silence=LONG)
        arrived = [target for _, target in careless.requests]
        follows = isinstance(entry.payload, bytes)  # by another connection
        assert arrived == [b"/1", b"/2"][: 1 + follows], (entry.family, entry.spelling)
