"""A blocked request is answered by the proxy and never leaves it, whatever it comes as."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from shutil import which

import pytest

from e2e.conftest import REASON
from e2e.origin import Origin
from e2e.proxy import Proxy, read_answer, request_head

PROTOCOLS = [
    pytest.param("http", False, id="http/1.1"),
    pytest.param("https", False, id="https/1.1"),
    pytest.param("https", True, id="https/2"),
]


class Page(HTMLParser):
    """The words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.feed(text)
        self.close()

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize(("scheme", "http2"), PROTOCOLS)
class TestProtocols:
    def test_a_request_for_an_allowed_host_reaches_the_origin(
        self, proxy: Proxy, origin: Origin, scheme: str, http2: bool
    ) -> None:
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            response = client.get(f"{scheme}://good.test/page?q=1")
        assert (response.status_code, response.text) == (200, "from the origin")
        assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert [(r.scheme, r.host, r.target) for r in arrived.requests] == [(scheme, "good.test", b"/page?q=1")]
        assert arrived.connections == 1

    def test_a_blocked_host_is_answered_without_a_connection_to_it(
        self, proxy: Proxy, origin: Origin, scheme: str, http2: bool
    ) -> None:
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            response = client.get(f"{scheme}://ads.test/")
        assert response.status_code == 403
        assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert response.headers["content-type"].startswith("text/html")
        assert response.headers["cache-control"] == "no-store"
        assert arrived.connections == 0

    def test_a_blocked_path_between_allowed_ones_of_the_same_connection_is_not_forwarded(
        self, proxy: Proxy, origin: Origin, scheme: str, http2: bool
    ) -> None:
        targets = ["/", "/secret/x", "/secrets", "/secret/"]
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            statuses = [client.get(f"{scheme}://path.test{target}").status_code for target in targets]
        assert statuses == [200, 403, 200, 403]
        assert [request.target for request in arrived.requests] == [b"/", b"/secrets"]

    def test_head_gets_the_status_without_a_body(self, proxy: Proxy, origin: Origin, scheme: str, http2: bool) -> None:
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            response = client.head(f"{scheme}://ads.test/")
            follower = client.get(f"{scheme}://ads.test/")
        assert (response.status_code, response.content) == (403, b"")
        assert follower.status_code == 403
        assert arrived.connections == 0


def test_no_byte_follows_the_head_of_an_answer_to_head(proxy: Proxy) -> None:
    with proxy.connect() as connection:
        connection.sendall(request_head(b"http://ads.test/", b"ads.test", method=b"HEAD"))
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    assert reply.startswith(b"HTTP/1.1 403 ")
    assert reply.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("url", "expression", "words"),
    [
        pytest.param("http://ads.test/", "ads.test/", REASON, id="in the clear"),
        pytest.param("https://a.b.prefix.test/x?y", "prefix.test/", REASON, id="a hash prefix, a host below"),
        pytest.param("http://full.test/", "full.test/", REASON, id="a full hash"),
        pytest.param("https://hashed.test/page", "https://hashed.test/page", REASON, id="a hashed URI, https"),
        pytest.param("http://listed.test/", "http://listed.test", "Listed by URI", id="a list of hashed URIs"),
        pytest.param("http://10.20.30.40/", "10.20.30.40", REASON, id="an address range"),
    ],
)
def test_curl_sees_the_block_page(proxy: Proxy, url: str, expression: str, words: str) -> None:
    curl = which("curl")
    if not curl:
        pytest.skip("there is no curl")
    shown = subprocess.run(
        [curl, "-sS", "--proxy", proxy.url, "--cacert", proxy.authority, "-w", "\n%{http_code}", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    text, status = shown.stdout.rsplit("\n", 1)
    page = Page(text)
    assert status == "403"
    assert words in page.words
    assert url in page.words
    assert expression in page.words
    assert ("secret.txt" if words != REASON else "Test <i>list</i>") in page.words


@pytest.mark.parametrize("tunnel", [b"", b"CONNECT good.test:80 HTTP/1.1\r\n\r\n"], ids=["plain", "in a tunnel"])
@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_an_origin_is_told_the_host_that_passes(proxy: Proxy, origin: Origin, tunnel: bytes, version: bytes) -> None:
    """By itself, it may answer for another one of its hosts, which is blocked."""
    target = b"/" if tunnel else b"http://good.test/"
    with origin.watch() as arrived, proxy.connect() as connection:
        connection.sendall(tunnel)
        assert not tunnel or read_answer(connection, "CONNECT").status == 200
        connection.sendall(b"GET %b %b\r\n\r\n" % (target, version))
        assert read_answer(connection).status == 200
    assert [request.host for request in arrived.requests] == ["good.test"]


class TestReverseMode:
    @pytest.fixture
    def reverse(self, start: Callable[..., Proxy]) -> Callable[[str, str], Proxy]:
        def reverse(target: str, keep_host: str = "false") -> Proxy:
            return start(proxy_mode=f"reverse:{target}", options={"keep_host_header": keep_host})

        return reverse

    def test_a_blocked_path_of_the_target_is_answered_and_the_rest_passes(
        self, reverse: Callable[..., Proxy], origin: Origin
    ) -> None:
        proxy = reverse("http://path.test")
        with origin.watch() as arrived:
            assert proxy.send(request_head(b"/", b"localhost")).status == 200
            assert proxy.send(request_head(b"/secret/x", b"localhost")).status == 403
            assert proxy.send(request_head(b"/a/..//%73ecret/", b"localhost")).status == 403
            rewritten = request_head(b"/", b"localhost", headers=[b"X-Original-URL: /secret/x"])
            assert proxy.send(rewritten).status == 403
        assert [request.target for request in arrived.requests] == [b"/"]

    def test_a_tls_target_that_is_blocked_is_not_connected_to(
        self, reverse: Callable[..., Proxy], origin: Origin
    ) -> None:
        proxy = reverse("https://ads.test")
        with origin.watch() as arrived:
            assert proxy.send(request_head(b"/", b"localhost")).status == 403
        assert arrived.connections == 0

    def test_a_host_header_that_is_kept_is_decided_about(self, reverse: Callable[..., Proxy], origin: Origin) -> None:
        proxy = reverse("http://good.test", keep_host="true")
        with origin.watch() as arrived:
            assert proxy.send(request_head(b"/", b"ads.test")).status == 403
            assert proxy.send(request_head(b"http://ads.test/", b"good.test")).status == 403
        assert arrived.connections == 0


def test_mode_off_touches_nothing(start: Callable[..., Proxy], origin: Origin) -> None:
    proxy = start(mode="off")
    with origin.watch() as arrived:
        assert proxy.get("http://ads.test/").text == "from the origin"
        assert proxy.get("https://ads.test/").text == "from the origin"
    assert len(arrived.requests) == 2


def test_a_fresh_checkout_filters_by_the_policy_in_rules(start: Callable[..., Proxy]) -> None:
    proxy = start(policy=None)
    urls = ["http://blocked.example/", "http://blocked.example/help/", "http://good.test/"]
    assert [proxy.get(url).status_code for url in urls] == [403, 200, 200]
