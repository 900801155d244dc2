"""Rules for files, with real downloads and uploads."""

from __future__ import annotations

import gzip
import socket
from pathlib import Path

import httpx
import pytest

from e2e.origin import PATIENCE, Origin
from e2e.plain_origin import PlainOrigin
from e2e.proxy import Proxy, mitmdump
from e2e.test_streaming import read_head
from support.policies import write_policy

_PROGRAM = b"MZ\x90\0" + bytes(1 << 19)
_RULES = """
files:
- {content: [program, part, unknown], reason: No programs}
- {endings: bat, reason: No batches}
- {types: video/*, reason: No films}
- {larger-than: 1m, for: download, reason: Too large}
- {larger-than: 10k, for: upload, reason: Too much}
log: on
"""


@pytest.fixture(scope="module")
def inspecting(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> object:
    folder = tmp_path_factory.mktemp("files")
    with mitmdump(folder, origin, policy=write_policy(folder, _RULES)) as proxy:
        yield proxy


@pytest.mark.parametrize("http2", [False, True])
def test_a_page_stands_in_place_of_a_download(inspecting: Proxy, origin: Origin, http2: bool) -> None:
    origin.pages |= {
        "/a.png": ("image/png", _PROGRAM),
        "/small": ("text/plain", b"MZ\0"),
        "/a.bat": ("text/plain", b"dir"),
        "/film": ("video/mp4", b"film"),
        "/large": ("text/plain", bytes(1 << 21)),
        "/text": ("text/plain", b"x" * (1 << 18)),
    }
    reasons = {}
    with inspecting.client(http2=http2) as client:
        for page in (*origin.pages, "/text"):
            answer = client.get(f"{'https' if http2 else 'http'}://good.test{page}", headers={"Accept": "text/html"})
            said = [
                reason for reason in ("No programs", "No batches", "No films", "Too large") if reason in answer.text
            ]
            reasons[page] = said or [answer.status_code, len(answer.content)]
    assert {page: reasons[page] for page in ("/a.png", "/small", "/a.bat", "/film", "/large", "/text")} == {
        "/a.png": ["No programs"],
        "/small": ["No programs"],
        "/a.bat": ["No batches"],
        "/film": ["No films"],
        "/large": ["Too large"],
        "/text": [200, 1 << 18],
    }


def test_an_upload_that_is_too_large_does_not_begin(inspecting: Proxy, origin: Origin) -> None:
    with origin.watch() as arrivals, inspecting.client() as client:
        assert (
            "Too much" in client.post("http://good.test/", content=bytes(20_000), headers={"Accept": "text/html"}).text
        )
        untold = client.post("http://good.test/", content=iter([b"a"]), headers={"Accept": "text/html"})
        assert client.post("http://good.test/", content=b"a").status_code == 200
    assert "Too much" in untold.text
    assert [request.body for request in arrivals.requests] == [1]


def serve(connection: socket.socket) -> None:
    """A program with a content coding; then a body without a length that does not end by itself; or a part."""
    head = read_head(connection)
    if b"/packed" in head:
        body = gzip.compress(b"") + gzip.compress(_PROGRAM)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
    elif b"/empty" in head:
        body = gzip.compress(b"") * 300 + gzip.compress(_PROGRAM)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
    elif b"/transfer" in head:
        body = gzip.compress(_PROGRAM)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    elif b"/events" in head:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        connection.recv(1)
    elif b"/part" in head:
        connection.sendall(b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-8/9\r\nContent-Length: 4\r\n\r\nprog")
    else:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")


def test_what_does_not_tell_itself_is_seen(tmp_path: Path) -> None:
    with (
        PlainOrigin(serve) as origin,
        mitmdump(tmp_path, origin, policy=write_policy(tmp_path, _RULES)) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        for page in ("packed", "empty", "transfer", "part"):
            assert "No programs" in client.get(f"http://good.test/{page}", headers={"Accept": "text/html"}).text
        with client.stream("GET", "http://good.test/events") as answer:
            assert next(answer.iter_raw()) == b"data: 1\n\n"
        received = 0
        with client.stream("GET", "http://good.test/endless") as answer, pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
            for octets in answer.iter_raw():
                received += len(octets)
        assert received <= 1 << 20


def form(*contents: bytes) -> bytes:
    parts = (b'--q7\r\nContent-Disposition: form-data; name="f"\r\n\r\n%b\r\n' % content for content in contents)
    return b"".join(parts) + b"--q7--\r\n"


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("stated", [False, True])
def test_nothing_of_a_blocked_upload_reaches_the_origin(
    tmp_path: Path, origin: Origin, http2: bool, stated: bool
) -> None:
    """A bare body by its beginning, a form by each part, and a form whose parts are not read for certain."""
    policy = write_policy(tmp_path, "files: [{content: program, reason: No programs}]\nuploads: {hold: 1m}\n")
    fine, bad = form(b"a" * 200_000, b"b"), form(b"a" * 200_000, _PROGRAM)
    typed = {"Content-Type": "multipart/form-data; boundary=q7"}
    sent = {
        "/bare": (_PROGRAM, {}),
        "/bad": (bad, typed),
        "/unsure": (b"hidden" + fine, typed),
        "/long": (form(b"a" * (1 << 21)), typed),
        "/fine": (fine, typed),
        "/text": (b"a" * 3_000_000, {}),
    }
    with (
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        origin.watch() as arrivals,
        proxy.client(http2=http2, timeout=PATIENCE) as client,
    ):
        statuses = {}
        for page, (body, headers) in sent.items():
            pieces = iter([body[at : at + 50_000] for at in range(0, len(body), 50_000)])
            content = body if stated else pieces
            url = f"{'https' if http2 else 'http'}://good.test{page}"
            answer = client.post(url, content=content, headers={"Accept": "text/html", **headers})
            statuses[page] = 403 if "No programs" in answer.text else answer.status_code
    assert statuses == {"/bare": 403, "/bad": 403, "/unsure": 403, "/long": 403, "/fine": 200, "/text": 200}
    assert [request.body for request in arrivals.requests] == [len(fine), 3_000_000]


def test_an_origin_never_gets_the_end_of_what_is_blocked_on_its_way(tmp_path: Path) -> None:
    """Nor anything of the part that is blocked."""
    received = bytearray()

    def keep(connection: socket.socket) -> None:
        while octets := connection.recv(1 << 16):
            received.extend(octets)

    policy = write_policy(
        tmp_path, "files: [{content: program, reason: No programs}]\nuploads: {hold: 10k, unseen: pass}\n"
    )
    body = form(b"a" * 200_000, _PROGRAM)
    with (
        PlainOrigin(keep) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        answer = client.post(
            "http://good.test/",
            content=(body[at : at + 10_000] for at in range(0, len(body), 10_000)),
            headers={"Accept": "text/html", "Content-Type": "multipart/form-data; boundary=q7"},
        )
    assert "No programs" in answer.text
    assert b"a" * 10_000 in received
    assert b"MZ" not in received
    assert b"q7--" not in received
