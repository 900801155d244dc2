"""An upload to a blocked URL stays in the proxy, and gets the page, whoever streams bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy, mitmdump, read_answer, request_head
from evasion.driver import LONG, send
from evasion.entries import Entry, fields

SIZE = 3_000_000
#: what streams bodies: the filter, nobody, or mitmproxy
OPTIONS = {
    "filter": {},
    "nobody": {"hushlist_stream": "off"},
    "mitmproxy": {"hushlist_stream": "off", "stream_large_bodies": "1"},
    "mitmproxy, late": {"hushlist_stream": "off", "stream_large_bodies": "1m"},
}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(f"uploads by {name}")) for name in OPTIONS]
)
def streaming(
    tmp_path_factory: pytest.TempPathFactory, origin: Origin, policy: Path, request: pytest.FixtureRequest
) -> Iterator[Proxy]:
    """A proxy that passes bodies on while they still arrive, or does not."""
    options = OPTIONS[request.param]
    with mitmdump(tmp_path_factory.mktemp("streaming"), origin, policy=policy, options=options) as running:
        yield running


def chunks() -> Iterator[bytes]:
    """The same upload, its length not known beforehand."""
    for _ in range(SIZE // 10_000):
        yield bytes(10_000)


def upload(proxy: Proxy, url: str, *, http2: bool, chunked: bool) -> int:
    """The status of the answer."""
    with proxy.client(http2=http2) as client:
        return client.post(url, content=chunks() if chunked else bytes(SIZE)).status_code


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
            status = upload(streaming, f"{scheme}://path.test/secret/", http2=http2, chunked=chunked)
        assert status == 403
        assert arrived.connections == 0
        with streaming.client() as client:
            assert client.get("http://good.test/").status_code == 200
            assert client.get("http://ads.test/").status_code == 403
        assert "Traceback" not in streaming.log.text(start)


@pytest.mark.parametrize(("scheme", "http2"), [("http", False), ("https", False), ("https", True)])
def test_a_body_where_none_is_expected_stays_in_the_proxy(
    streaming: Proxy, origin: Origin, scheme: str, http2: bool
) -> None:
    with origin.watch() as arrived, streaming.client(http2=http2) as client:
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
    assert [request.body for request in arrived.requests] == ([0] if method == b"GET" else [len(inner), len(inner), 0])


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
    with origin.watch() as arrived, streaming.connect() as connection:
        connection.sendall(expect)
        connection.sendall(body)
        answer = read_answer(connection)
        assert answer.status == 403
        assert answer.headers["connection"] == "close"
    assert arrived.connections == 0
    assert streaming.get("http://good.test/").status_code == 200


def test_a_request_after_a_blocked_upload_on_the_same_connection_is_not_mistaken(
    streaming: Proxy, origin: Origin
) -> None:
    # What looks like a request inside the body is only the body.
    inner = b"GET http://good.test/inner HTTP/1.1\r\nHost: good.test\r\n\r\n"
    outer = b"POST http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nContent-Length: %d\r\n\r\n" % len(inner)
    with origin.watch() as arrived, streaming.connect() as connection:
        connection.sendall(outer + inner + request_head(b"http://good.test/after", b"good.test"))
        statuses = [read_answer(connection).status]
        statuses.append(read_answer(connection).status)
    assert statuses == [403, 200]
    assert [request.target for request in arrived.requests] == [b"/after"]
