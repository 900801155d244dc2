"""An upload to a blocked URL stays in the proxy, even where mitmproxy streams bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from e2e.origin import Origin
from e2e.proxy import PATIENCE, Proxy, mitmdump, read_answer, request_head
from evasion.driver import LONG, send
from evasion.entries import Entry, fields

SIZE = 3_000_000
#: seconds after which an upload that is perhaps cut off is given up: mitmproxy 12 may forget to close its connection
CUT = 3.0


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory, origin: Origin, policy: Path) -> Iterator[Proxy]:
    """A proxy that passes bodies on while they still arrive."""
    options = {"stream_large_bodies": "1"}
    with mitmdump(tmp_path_factory.mktemp("streaming"), origin, policy=policy, options=options) as running:
        yield running


def chunks() -> Iterator[bytes]:
    """The same upload, its length not known beforehand."""
    for _ in range(SIZE // 10_000):
        yield bytes(10_000)


def upload(proxy: Proxy, url: str, *, http2: bool, chunked: bool, patience: float = PATIENCE) -> int | None:
    """The status of the answer, or nothing where the proxy cuts the upload off rather than answer."""
    with proxy.client(http2=http2, timeout=patience) as client:
        try:
            return client.post(url, content=chunks() if chunked else bytes(SIZE)).status_code
        except httpx.TransportError:
            return None


@pytest.mark.parametrize("chunked", [False, True], ids=["content-length", "chunked"])
@pytest.mark.parametrize(
    ("scheme", "http2"),
    [
        pytest.param("http", False, id="http/1.1"),
        pytest.param("https", False, id="https/1.1"),
        pytest.param("https", True, id="https/2"),
    ],
)
class TestUpload:
    def test_an_allowed_upload_is_streamed_to_the_origin(
        self, streaming: Proxy, origin: Origin, scheme: str, http2: bool, chunked: bool
    ) -> None:
        with origin.watch() as arrived:
            status = upload(streaming, f"{scheme}://good.test/", http2=http2, chunked=chunked)
        assert status == 200
        assert [request.body for request in arrived.requests] == [SIZE]

    def test_no_byte_of_a_blocked_upload_reaches_the_origin_though_bodies_are_streamed(
        self, streaming: Proxy, origin: Origin, scheme: str, http2: bool, chunked: bool
    ) -> None:
        start = len(streaming.log)
        with origin.watch() as arrived:
            status = upload(streaming, f"{scheme}://path.test/secret/", http2=http2, chunked=chunked, patience=CUT)
        assert status in (403, None)
        assert arrived.connections == 0
        with streaming.client() as client:
            assert client.get("http://good.test/").status_code == 200
            assert client.get("http://ads.test/").status_code == 403
        assert "Traceback" not in streaming.log.text(start)

    def test_a_blocked_upload_is_answered_with_the_page_where_bodies_are_not_streamed(
        self, proxy: Proxy, origin: Origin, scheme: str, http2: bool, chunked: bool
    ) -> None:
        with origin.watch() as arrived:
            status = upload(proxy, f"{scheme}://path.test/secret/", http2=http2, chunked=chunked)
        assert status == 403
        assert arrived.connections == 0


@pytest.mark.parametrize(("scheme", "http2"), [("http", False), ("https", False), ("https", True)])
def test_a_body_where_none_is_expected_stays_in_the_proxy(
    streaming: Proxy, origin: Origin, scheme: str, http2: bool
) -> None:
    # A page can be answered only before its body is known; the client is none that deserves better than a cut.
    with (
        origin.watch() as arrived,
        streaming.client(http2=http2, timeout=CUT) as client,
        suppress(httpx.TransportError),
    ):
        assert client.request("GET", f"{scheme}://ads.test/", content=chunks()).status_code == 403
    assert arrived.connections == 0
    assert streaming.get("http://good.test/").status_code == 200
    assert streaming.get("http://ads.test/").status_code == 403


@pytest.mark.parametrize("method", [b"POST", b"GET"])
def test_no_body_of_http_2_is_streamed_as_another_request(streaming: Proxy, origin: Origin, method: bytes) -> None:
    inner = b"GET /secret/x HTTP/1.1\r\nHost: path.test\r\n\r\n"
    hidden = Entry("", "path.test/secret/", "", fields(b"/", b"good.test", method=method), body=inner)
    told = fields(b"/", b"good.test", (b"content-length", b"%d" % len(inner)), method=method)
    with origin.watch() as arrived:
        send(streaming, hidden)
        send(streaming, replace(hidden, payload=told))
        assert send(streaming, replace(hidden, body=b""), LONG) == b"200"
    assert {request.target for request in arrived.requests} == {b"/"}
    bodies = [request.body for request in arrived.requests if "content-length" in request.headers]
    assert bodies == ([] if method == b"GET" else [len(inner)])


@pytest.mark.parametrize("body", [b"x" * 100_000, b""], ids=["with a body", "without the body"])
def test_a_blocked_upload_that_waits_for_100_continue_stays_in_the_proxy(
    streaming: Proxy, origin: Origin, body: bytes
) -> None:
    expect = request_head(
        b"http://ads.test/",
        b"ads.test",
        method=b"POST",
        headers=[b"Expect: 100-continue", b"Content-Length: 100000"],
    )
    with origin.watch() as arrived:
        with streaming.connect() as connection:
            connection.sendall(expect)
            first = connection.recv(65536)  # "100 Continue", the answer, or the end
            if first.startswith(b"HTTP/1.1 100 ") and body:
                connection.sendall(body)
                first = connection.recv(65536)
        assert first == b"" or first.startswith((b"HTTP/1.1 100 ", b"HTTP/1.1 403 "))
        assert not (body and first.startswith(b"HTTP/1.1 100 "))
    assert arrived.connections == 0
    assert streaming.get("http://good.test/").status_code == 200


def test_a_request_after_a_blocked_upload_on_the_same_connection_is_not_mistaken(proxy: Proxy, origin: Origin) -> None:
    # What looks like a request inside the body is only the body.
    inner = b"GET http://good.test/inner HTTP/1.1\r\nHost: good.test\r\n\r\n"
    outer = b"POST http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nContent-Length: %d\r\n\r\n" % len(inner)
    with origin.watch() as arrived, proxy.connect() as connection:
        connection.sendall(outer + inner + request_head(b"http://good.test/after", b"good.test"))
        statuses = [read_answer(connection).status]
        statuses.append(read_answer(connection).status)
    assert statuses == [403, 200]
    assert [request.target for request in arrived.requests] == [b"/after"]
