"""A blocked request is answered by the proxy and never leaves it, whatever it comes as."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest

from e2e.conftest import REASON
from e2e.origin import Origin
from e2e.policies import simple_policy
from e2e.proxy import Proxy, read_answer, request_head

PROTOCOLS = [
    pytest.param("http", False, id="http/1.1"),
    pytest.param("https", False, id="https/1.1"),
    pytest.param("https", True, id="https/2"),
]


class Page(HTMLParser):
    """The words and the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

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

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
    def test_a_blocked_request_is_blocked_by_any_method(
        self, proxy: Proxy, origin: Origin, scheme: str, http2: bool, method: str
    ) -> None:
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            response = client.request(method, f"{scheme}://ads.test/", content=b"body")
        assert response.status_code == 403
        assert arrived.connections == 0

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
        pytest.param("https://ads.test/", "ads.test/", REASON, id="in the clear, https"),
        pytest.param("http://prefix.test/", "prefix.test/", REASON, id="a hash prefix"),
        pytest.param("https://a.b.prefix.test/x?y", "prefix.test/", REASON, id="a hash prefix, a host below"),
        pytest.param("http://prefix-path.test/deep/", "prefix-path.test/deep/", REASON, id="a prefix of 4 bytes"),
        pytest.param("http://full.test/", "full.test/", REASON, id="a full hash"),
        pytest.param("http://hashed.test/page", "http://hashed.test/page", REASON, id="a hashed URI"),
        pytest.param("https://hashed.test/page", "https://hashed.test/page", REASON, id="a hashed URI, https"),
        pytest.param(
            "http://hashed.test/page?q", "http://hashed.test/page", REASON, id="a hashed URI without its query"
        ),
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


@pytest.mark.parametrize(
    "url",
    [
        "http://hashed.test/",
        "http://hashed.test/page2",
        "http://hashed.test/page/",
        "http://listed.test/page",
        "http://prefix-path.test/",
        "http://badads.test/",
        "http://ads.test.good.test/",
        "http://good.test/?u=http://ads.test/",
        "http://good.test/ads.test/",
        "http://path.test/Secret/",
        "http://path.test/secret",
        "http://11.20.30.40/",
        "http://video.test/live/now",
        "http://allowed.ads.test/",
        "http://expired.test/",
        "http://tagged.test/",
    ],
)
def test_what_no_rule_blocks_passes(proxy: Proxy, origin: Origin, url: str) -> None:
    with origin.watch() as arrived:
        response = proxy.get(url)
    assert (response.status_code, response.text) == (200, "from the origin")
    assert len(arrived.requests) == 1


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://ADS.Test/", b"ADS.Test"),
        (b"http://ads.test./", b"ads.test."),
        (b"http://ads.test:80/", b"ads.test:80"),
        (b"http://ads.test:8080/", b"ads.test:8080"),
        (b"http://ads.test", b"ads.test"),
        (b"http://ads.test/?", b"ads.test"),
        (b"http://a.b.c.d.e.f.ads.test/", b"a.b.c.d.e.f.ads.test"),
        (b"http://video.test/other/", b"video.test"),
        (b"http://path.test/secret/", b"path.test"),
        (b"http://path.test/secret/?q", b"path.test"),
        (b"http://path.test/secret/1/2/3/4/5/6/7/8", b"path.test"),
        (b"http://path.test/%73ecret/", b"path.test"),
        (b"http://path.test/%73%65%63%72%65%74%2F", b"path.test"),
        (b"http://path.test/%2573ecret/", b"path.test"),
        (b"http://path.test/%252573ecret/", b"path.test"),
        (b"http://path.test/a/../secret/", b"path.test"),
        (b"http://path.test/../secret/", b"path.test"),
        (b"http://path.test/./secret/", b"path.test"),
        (b"http://path.test/a/%2E%2e/secret/", b"path.test"),
        (b"http://path.test//secret//x", b"path.test"),
        (b"http://0x0a.20.30.40/", b"0x0a.20.30.40"),
        (b"http://012.20.30.40/", b"012.20.30.40"),
        (b"http://169090600/", b"169090600"),
        (b"http://[::ffff:10.20.30.40]/", b"[::ffff:10.20.30.40]"),
    ],
)
def test_another_spelling_of_a_blocked_url_does_not_get_through(
    proxy: Proxy, origin: Origin, target: bytes, host: bytes
) -> None:
    with origin.watch() as arrived:
        answer = proxy.send(request_head(target, host))
    assert answer.status == 403
    assert arrived.connections == 0


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(request_head(b"http://ads.test/", b"good.test"), id="the target is blocked"),
        pytest.param(request_head(b"http://good.test/", b"ads.test"), id="Host is blocked"),
        pytest.param(request_head(b"http://good.test/", b"ADS.TEST.:8080"), id="Host is blocked, spelled otherwise"),
        pytest.param(request_head(b"http://good.test/secret/", b"path.test"), id="Host and path are blocked"),
        pytest.param(request_head(b"http://ads.test/"), id="no Host"),
        pytest.param(request_head(b"http://ads.test/", b""), id="an empty Host"),
        pytest.param(b"GET http://ads.test/ HTTP/1.0\r\n\r\n", id="HTTP/1.0"),
    ],
)
def test_a_request_is_blocked_if_any_of_its_names_is(proxy: Proxy, origin: Origin, head: bytes) -> None:
    with origin.watch() as arrived:
        answer = proxy.send(head)
    assert answer.status == 403
    assert arrived.connections == 0


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


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(request_head(b"HTTP://ads.test/", b"ads.test"), id="the scheme in capitals"),
        pytest.param(request_head(b"http://user:word@ads.test/", b"ads.test"), id="a user and a password"),
        pytest.param(request_head(b"http://path.test/se\tcret/", b"path.test"), id="a tab in the path"),
        pytest.param(request_head(b"http://good.test/", b"good.test", b"ads.test"), id="a second Host is blocked"),
        pytest.param(request_head(b"http://good.test/", b"ads.test", b"good.test"), id="a first Host is blocked"),
        pytest.param(request_head(b"/", b"ads.test"), id="the target without a host"),
    ],
)
def test_what_mitmproxy_itself_may_refuse_does_not_get_through(proxy: Proxy, origin: Origin, head: bytes) -> None:
    with origin.watch() as arrived:
        answer = proxy.send(head)
    assert answer.status in (400, 403)
    assert arrived.connections == 0


@pytest.mark.parametrize("http2", [False, True], ids=["http/1.1", "http/2"])
@pytest.mark.parametrize(
    ("connect", "host"),
    [
        pytest.param("ads.test", "good.test", id="CONNECT"),
        pytest.param("good.test", "ads.test", id="Host or :authority"),
    ],
)
def test_one_blocked_name_in_a_tls_tunnel_is_enough(
    proxy: Proxy, origin: Origin, connect: str, host: str, http2: bool
) -> None:
    with origin.watch() as arrived, proxy.client(http2=http2) as client:
        response = client.get(f"https://{connect}/", headers={"Host": host})
    assert response.status_code == 403
    assert arrived.connections == 0


@pytest.mark.parametrize(
    ("connect", "sni", "status"),
    [("good.test", "good.test", 200), ("good.test", "ads.test", 403), ("ads.test", "good.test", 403)],
)
def test_the_name_of_the_tls_handshake_is_decided_about_too(
    proxy: Proxy, origin: Origin, connect: str, sni: str, status: int
) -> None:
    with (
        origin.watch() as arrived,
        proxy.tunnel(connect, 443) as tunnel,
        proxy.tls().wrap_socket(tunnel, server_hostname=sni) as connection,
    ):
        connection.sendall(request_head(b"/", b"good.test"))
        answer = read_answer(connection)
    assert answer.status == status
    assert arrived.connections == (status == 200)


@pytest.mark.parametrize(
    ("connect", "target", "host"),
    [
        pytest.param("ads.test", b"/", b"ads.test", id="all blocked"),
        pytest.param("ads.test", b"/", b"good.test", id="CONNECT"),
        pytest.param("good.test", b"/", b"ads.test", id="Host"),
        pytest.param("good.test", b"http://ads.test/", b"good.test", id="the target in absolute form"),
        pytest.param("good.test", b"http://path.test/secret/", b"good.test", id="host and path of the target"),
    ],
)
def test_one_blocked_name_in_a_plain_tunnel_is_enough(
    proxy: Proxy, origin: Origin, connect: str, target: bytes, host: bytes
) -> None:
    with origin.watch() as arrived, proxy.tunnel(connect, 80) as tunnel:
        tunnel.sendall(request_head(target, host))
        answer = read_answer(tunnel)
    assert answer.status == 403
    assert arrived.connections == 0


NAVIGATION = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("headers", "content_type"),
    [
        pytest.param({}, "text/html", id="a client that says nothing"),
        pytest.param({"Accept": "*/*"}, "text/html", id="curl"),
        pytest.param({"Accept": NAVIGATION}, "text/html", id="an old browser"),
        pytest.param({"Accept": NAVIGATION, "Sec-Fetch-Dest": "document"}, "text/html", id="navigation"),
        pytest.param({"Accept": NAVIGATION, "Sec-Fetch-Dest": "iframe"}, "text/html", id="a frame"),
        pytest.param({"Accept": "image/avif,*/*;q=0.8", "Sec-Fetch-Dest": "image"}, "image/", id="image"),
        pytest.param({"Accept": "*/*", "Sec-Fetch-Dest": "script"}, "text/javascript", id="script"),
        pytest.param({"Accept": "text/css,*/*;q=0.1", "Sec-Fetch-Dest": "style"}, "text/css", id="style"),
        pytest.param({"Accept": "*/*", "Sec-Fetch-Dest": "empty"}, "application/json", id="fetch"),
        pytest.param({"X-Requested-With": "XMLHttpRequest"}, "application/json", id="XMLHttpRequest"),
        pytest.param({"Accept": "application/json, */*"}, "application/json", id="JSON wanted"),
    ],
)
def test_the_answer_fits_what_the_client_asked_for(
    proxy: Proxy, headers: dict[str, str], content_type: str, scheme: str
) -> None:
    response = proxy.get(f"{scheme}://ads.test/x", headers)
    assert response.status_code == 403
    assert response.headers["content-type"].startswith(content_type)
    assert response.headers["cache-control"] == "no-store"
    match content_type:
        case "text/javascript" | "text/css":
            assert response.content == b""
        case "application/json":
            answer = response.json()
            assert answer["blocked"] is True
            assert answer["url"] == f"{scheme}://ads.test/x"
            assert answer["reason"] == REASON
            assert answer["list"] == "Test <i>list</i>"
            assert answer["rule"].startswith("ads.yaml:")
            assert answer["expression"] == "ads.test/"
        case _:
            assert response.content


@pytest.mark.parametrize("target", [b"/<script>alert(1)</script>", b'/"><img src=x onerror=alert(1)>', b"/'-&lt;"])
def test_what_a_page_shows_of_a_request_or_a_rule_stays_text(proxy: Proxy, target: bytes) -> None:
    plain = Page(proxy.get("http://ads.test/").text)
    answer = proxy.send(request_head(b"http://ads.test" + target.replace(b" ", b"%20"), b"ads.test"))
    page = Page(answer.body.decode())
    assert REASON in page.words
    assert "Test <i>list</i>" in page.words
    assert page.tags == plain.tags


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


def test_a_rule_for_a_whole_url_fits_on_its_rung_alone(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    rules = (
        {"expression": "http://simple.test/a%7eb?q", "match": "simple"},
        {"expression": "http://syntax.test/~b", "match": "syntax"},
        {"expression": "http://bücher.test:80", "match": "scheme"},
        "video.test",
        {"expression": "http://video.test/watch?v=%41", "match": "simple", "action": "allow"},
    )
    proxy = start(policy=simple_policy(tmp_path / "whole", *rules))
    blocked = [
        (b"simple.test", b"/a%7eb?q"),
        (b"Syntax.test", b"/x/../%7Eb"),
        (b"xn--bcher-kva.test", b"/"),
        (b"video.test", b"/watch?v=A"),
        (b"video.test", b"/watch/%2e%2e/watch?v=%41"),
    ]
    passed = [
        (b"simple.test", b"/a~b?q"),
        (b"Simple.test", b"/a%7eb?q"),
        (b"syntax.test", b"/~B"),
        (b"syntax.test:8080", b"/~b"),
        (b"xn--bcher-kva.test", b"/?x"),
        (b"video.test", b"/watch?v=%41"),
    ]
    for sent, status in ((blocked, 403), (passed, 200)):
        with origin.watch() as arrived:
            answers = [proxy.send(request_head(b"http://" + host + target, host)) for host, target in sent]
        assert [answer.status for answer in answers] == [status] * len(sent)
        assert [request.target for request in arrived.requests] == [target for _, target in sent if status == 200]
        if status == 403:
            assert b'<code dir="ltr">http://Syntax.test/x/../%7Eb</code>' in answers[1].body


def test_a_filter_of_an_adblock_list_stops_a_script_of_another_site_alone(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    (tmp_path / "list.adblock").write_text("||good.test^*/ads/$script,third-party\n@@||good.test/ads/fine/$script\n")
    (tmp_path / "policy.yaml").write_text("layers: [{name: lists, lists: [list.adblock]}]")
    script = {"Sec-Fetch-Dest": "script", "Referer": "https://www.news.test/today"}
    asked = (
        ("/v1/ads/x.js", script, 403),
        ("/v1/ads/x.js", script | {"Referer": "http://www.good.test/"}, 200),
        ("/v1/ads/x.js", script | {"Sec-Fetch-Dest": "image"}, 200),
        ("/v1/%61ds/x.js", script, 403),
        ("/v1/ads/x.js", {}, 200),
    )
    with start(policy=tmp_path / "policy.yaml").client() as client, origin.watch() as arrived:
        codes = [client.get(f"http://good.test{target}", headers=headers).status_code for target, headers, _ in asked]
    assert codes == [code for *_, code in asked]
    assert len(arrived.requests) == codes.count(200)
