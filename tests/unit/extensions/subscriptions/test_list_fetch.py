"""Fetching: over verified connections alone, bounded in size and time, whole or not at all."""

import gzip
import io
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from hushlist.core.errors import FetchError
from hushlist.extensions.subscriptions import list_fetch
from hushlist.extensions.subscriptions.list_fetch import Fetched, fetch
from support.https_origin import Handler, HttpsOrigin, Page
from unit.rows import each_row

LIST = b"blocked.example\n" * 1000
LONGEST = 1 << 20


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    for name in ("https_proxy", "http_proxy", "no_proxy", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with HttpsOrigin(tmp_path / "origin") as origin:
        monkeypatch.setenv("SSL_CERT_FILE", str(origin.authority))
        yield origin


def fetched(url: str, deadline: float = 30.0, longest: int = LONGEST, **options: str) -> tuple[bytes, Fetched]:
    file = io.BytesIO()
    return (found := fetch(url, file, longest=longest, deadline=deadline, **options)) and (file.getvalue(), found)


def fault(url: str, **options: float) -> str:
    with pytest.raises(FetchError) as raised:
        fetched(url, **options)  # type: ignore[arg-type]
    return str(raised.value)


def raw(head: bytes, *parts: bytes, pause: float = 0.0) -> Page:
    """A page that is written as it is given, with pauses between its parts."""

    def write(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        for part in parts:
            handler.wfile.write(part)
            time.sleep(pause)

    return Page(write=write)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_list_is_fetched_unpacked(origin: HttpsOrigin, pack: Callable[[bytes], bytes]) -> None:
    origin.pages["/list"] = Page(pack(LIST), headers={"ETag": '"1"', "Last-Modified": "yesterday"})
    assert fetched(f"{origin.url}/list") == (LIST, Fetched(False, '"1"', "yesterday"))
    _, headers = origin.requests[0]
    assert headers["accept-encoding"] == "gzip, zstd"
    assert headers["user-agent"].startswith("hushlist/")
    assert "if-none-match" not in headers


@pytest.mark.parametrize("text", ['"1"\r\n X: y', '"1"\r\n \r\n z', '"\x00"', '"\xff"', f'"{"1" * 1024}"'])
def test_a_validator_that_may_do_harm_in_a_request_is_not_kept(origin: HttpsOrigin, text: str) -> None:
    head = f"Content-Length: {len(LIST)}\r\nETag: {text}\r\nLast-Modified: {text}".encode("latin-1")
    origin.pages["/list"] = raw(head, LIST)
    assert fetched(f"{origin.url}/list") == (LIST, Fetched(False))


def test_what_has_not_changed_is_not_fetched_again(origin: HttpsOrigin) -> None:
    origin.pages["/list"] = Page(LIST, headers={"ETag": '"1"'})
    assert fetched(f"{origin.url}/list", etag='"1"') == (b"", Fetched(True))
    assert fetched(f"{origin.url}/list", etag='"0"', last_modified="x")[0] == LIST
    assert origin.requests[-1][1]["if-modified-since"] == "x"
    origin.pages["/list"] = Page(status=304)
    assert fault(f"{origin.url}/list") == "the server says 304 Not Modified"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120", 120), ("9" * 30, 7 * 86400), ("", 0), ("soon", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("-5", 0)],
)
def test_who_asks_for_patience_gets_it(origin: HttpsOrigin, text: str, seconds: float) -> None:
    origin.pages["/list"] = Page(b"x", 503, {"Retry-After": text})
    with pytest.raises(FetchError) as raised:
        fetched(f"{origin.url}/list")
    assert raised.value.retry_after == seconds


def test_a_certificate_has_to_be_valid(origin: HttpsOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.pages["/list"] = Page(LIST)
    with HttpsOrigin(tmp_path / "other") as other:
        assert "its certificate is not valid: " in fault(f"{other.url}/list")
    wrong = origin.url.replace("localhost", "127.1")  # whose certificate it is not
    assert "its certificate is not valid: " in fault(f"{wrong}/list")
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "its certificate is not valid: " in fault(f"{origin.url}/list")
    assert origin.requests == []


# -- redirects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(origin: HttpsOrigin, status: int) -> None:
    origin.pages["/list"] = Page(status=status, headers={"Location": "/new"})
    origin.pages["/new"] = Page(LIST)
    assert fetched(f"{origin.url}/list")[0] == LIST


@pytest.mark.parametrize("target", ["http://localhost/", "ftp://localhost/", "file:///etc/passwd", "data:,x"])
def test_redirects_lead_to_nothing_but_https(origin: HttpsOrigin, target: str) -> None:
    origin.pages["/list"] = Page(status=302, headers={"Location": target})
    assert fault(f"{origin.url}/list").endswith(("which is not https", "in a circle, or nowhere"))


def test_a_redirect_from_http_may_lead_to_https_and_on_to_http_never(origin: HttpsOrigin, tmp_path: Path) -> None:
    with HttpsOrigin(tmp_path / "plain", is_plain=True) as plain:
        plain.pages["/list"] = Page(status=302, headers={"Location": f"{origin.url}/list"})
        origin.pages["/list"] = Page(LIST)
        assert fetched(f"{plain.url}/list")[0] == LIST
        origin.pages["/list"] = Page(status=302, headers={"Location": f"{plain.url}/end"})
        assert fault(f"{plain.url}/list").endswith("which is not https")
        assert [path for path, _ in plain.requests] == ["/list", "/list"]


def test_a_redirect_leads_to_no_private_address_that_the_policy_does_not_name(
    origin: HttpsOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/secret"] = Page(LIST)
    inside = f"https://127.0.0.1:{origin.port}/secret"
    origin.pages["/list"] = Page(status=302, headers={"Location": inside})
    why = "it redirects to the address 127.0.0.1, which is not one of the internet"
    assert fault(f"{origin.url}/list") == why
    assert [path for path, _ in origin.requests] == ["/list"]
    assert fetched(inside)[0] == LIST  # which the policy itself may


@pytest.mark.parametrize(
    "private",
    [
        *("127.0.0.1", "10.1.2.3", "100.64.0.1", "224.0.0.1", "fe80::1%lo", "fec0::1", "ff0e::1", "::ffff:192.168.0.1"),
        # through NAT64, 6to4, or as IPv6 once wrote an IPv4 address
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:a00:1::1", "::7f00:1"),
        *("2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:a00:1"),
    ],
)
def test_a_private_address_is_refused_before_anything_is_sent_there(
    origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch, private: str
) -> None:
    resolve, connect, asked = socket.getaddrinfo, socket.create_connection, []

    def resolved(host: str, *rest: Any, **more: Any) -> Any:
        return [(2, 1, 6, "", (private, 443))] if host == "outside.test" else resolve(host, *rest, **more)

    def connected(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        asked.append(address[0])
        return connect(address, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "create_connection", connected)
    origin.pages["/list"] = Page(status=302, headers={"Location": "https://outside.test/list"})
    why = f"it redirects to the address {private}, which is not one of the internet"
    assert fault(f"{origin.url}/list") == why
    assert asked in ([], ["localhost"])


def test_a_redirect_connects_to_the_address_that_was_checked(
    origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, connect, asked = socket.getaddrinfo, socket.create_connection, []

    def resolved(host: str, *rest: Any, **more: Any) -> Any:
        return [(2, 1, 6, "", ("192.52.193.7", 443))] if host == "outside.test" else resolve(host, *rest, **more)

    def refused(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        if address[0] == "localhost":
            return connect(address, *rest, **more)
        asked.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "create_connection", refused)
    origin.pages["/list"] = Page(status=302, headers={"Location": "https://outside.test/list"})
    assert fault(f"{origin.url}/list") == "no connection: Connection refused"
    assert asked == [("192.52.193.7", 443)]


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_stopped(origin: HttpsOrigin, pack: Callable[[bytes], bytes]) -> None:
    origin.pages["/list"] = Page(pack(bytes(50_000_000)))
    assert fault(f"{origin.url}/list") == "it is longer than 1,048,576 octets, the most that are read"


def test_an_endless_answer_is_stopped(origin: HttpsOrigin) -> None:
    def write(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            handler.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    origin.pages["/list"] = Page(write=write)
    assert fault(f"{origin.url}/list") == "it is longer than 1,048,576 octets, the most that are read"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        raw(b"Content-Length: 1000", *[b"x"] * 1000, pause=0.05),  # the body, slowly
        raw(b"X-A: 1\r\n" * 20 + b"Content-Length: 9999", b"", pause=30),  # nothing
        raw(b"Transfer-Encoding: chunked", *[b"1\r\nx\r\n"] * 1000, pause=0.05),
    ],
)
def test_a_slow_drip_ends_after_a_time_in_all(origin: HttpsOrigin, page: Page) -> None:
    origin.pages["/list"] = page
    start = time.monotonic()
    assert fault(f"{origin.url}/list", deadline=1.0) == "it was not done after 1 seconds"
    assert time.monotonic() - start < 15


@pytest.mark.slow
def test_a_head_that_drips_ends_after_a_time_in_all(origin: HttpsOrigin) -> None:
    def write(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for at in range(1000):
            handler.wfile.write(b"X-%d: 1\r\n" % at)
            time.sleep(0.05)

    origin.pages["/list"] = Page(write=write)
    assert fault(f"{origin.url}/list", deadline=1.0) == "it was not done after 1 seconds"


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (raw(b"Content-Length: 1000", b"x"), "it was cut off: 999 octets are missing"),
        (raw(b"Transfer-Encoding: chunked", b"5\r\nabcde\r\n"), "the server's answer is broken or cut off: Incomplete"),
        (raw(b"X: 1", LIST), "the server does not say where its answer ends, so that half of it would look like all"),
        (
            raw(b"Content-Length: 30\r\nContent-Encoding: gzip", gzip.compress(LIST)[:30]),
            "its compression is broken: it ends too early",
        ),
        (
            raw(b"Content-Length: 40\r\nContent-Encoding: gzip", gzip.compress(LIST)[:30]),
            "it was cut off: 10 octets are missing",
        ),
    ],
)
def test_half_a_list_is_none(origin: HttpsOrigin, page: Page, why: str) -> None:
    origin.pages["/list"] = page
    assert fault(f"{origin.url}/list").startswith(why)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", ""),
        (b"\x00\xff\r\n\r\n", ""),
        (b"HTTP/1.1 999999\r\n\r\n", ": BadStatusLine: HTTP/1.1 999999"),
        (b"X\r\n\r\n", ": BadStatusLine: X"),
        (b"HTTP/1.1 200 OK\r\n" * 200, ""),
    ],
)
def test_an_answer_that_is_none_is_told(origin: HttpsOrigin, answer: bytes, why: str) -> None:
    origin.pages["/list"] = Page(write=lambda handler: handler.wfile.write(answer) and None)
    said = fault(f"{origin.url}/list")
    assert said.startswith(f"the server's answer is broken or cut off{why}") or (not why and "no connection" in said)


# -- proxies -----------------------------------------------------------------------------------------------------------


def test_the_proxy_of_the_environment_is_asked_unless_it_is_the_filter_itself(
    origin: HttpsOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/list"] = Page(LIST)
    with HttpsOrigin(tmp_path / "proxy", is_plain=True) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:secret@localhost:{proxy.port}")
        why = fault(f"{origin.url}/list")
        assert why.endswith(f"(by the proxy 'http://localhost:{proxy.port}' of the environment)")
        assert "secret" not in why
        file = io.BytesIO()
        fetch(f"{origin.url}/list", file, longest=LONGEST, own_ports=[1, proxy.port])
        assert file.getvalue() == LIST
        monkeypatch.setenv("no_proxy", "localhost")
        assert fetched(f"{origin.url}/list")[0] == LIST


@each_row(
    ("proxy", "is_own"),
    [
        ("http://127.0.0.1:3128", True),
        ("127.0.0.1:3128", True),
        ("http://127.0.0.1:3129", False),
        ("http://127.0.0.1", False),
        ("http://192.0.2.1:3128", False),
        ("http://127.0.0.1:x", False),
    ],
)
def test_a_proxy_is_this_one_by_its_port_and_an_address_of_this_machine(proxy: str, is_own: bool) -> None:
    assert list_fetch._is_own(proxy, [1, 3128]) is is_own
