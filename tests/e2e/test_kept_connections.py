"""A program's connection goes on behind its uploads, whatever becomes of the origin's."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import which

import pytest

from e2e.origin import LOOPBACK, PATIENCE, Origin
from e2e.plain_origin import PlainHandler, PlainOrigin
from e2e.proxy import Proxy, mitmdump, read_answer

TIMES = 30
BODY = b'{"key": "value"}'


class _Handler(PlainHandler):
    """Answers with the body's length, obeys ``Connection: close``, and says nothing of it."""

    origin: SilentOrigin

    def do_POST(self) -> None:  # noqa: N802
        encoding = self.headers.get("Transfer-Encoding", "")
        body = _chunks(self.rfile) if encoding == "chunked" else self.rfile.read(int(self.headers["Content-Length"]))
        answer = b"%d" % len(body)
        if self.path.startswith("/slow"):
            self.origin.begun.set()
            self.origin.goes_on.wait(PATIENCE)
        self.send_response(200)
        if self.path.startswith("/closing"):
            self.send_header("Connection", "close")
        if not self.path.startswith("/endless"):
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def _chunks(reader: object) -> bytes:
    body = b""
    while size := int(reader.readline(), 16):  # type: ignore[attr-defined]
        body += reader.read(size)  # type: ignore[attr-defined]
        reader.readline()  # type: ignore[attr-defined]
    reader.readline()  # type: ignore[attr-defined]
    return body


class SilentOrigin(PlainOrigin):
    """An HTTP/1.1 origin, over http and https, that ends a connection without a word where it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda connection: _Handler(connection, self), folder)
        #: that a slow request has begun, and that it may go on
        self.begun, self.goes_on = threading.Event(), threading.Event()


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SilentOrigin]:
    with SilentOrigin(tmp_path_factory.mktemp("silent")) as running:
        yield running


@pytest.fixture(scope="module")
def by_silent(tmp_path_factory: pytest.TempPathFactory, silent: SilentOrigin, policy: Path) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("by_silent")
    with mitmdump(folder, silent, policy=policy) as running:
        yield running


#: sends so many bodies to a URL, one after the other, and gives the answers' statuses
Send = Callable[[Proxy, str, int], list[int]]


def by_http_client(proxy: Proxy, url: str, times: int) -> list[int]:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(LOOPBACK, proxy.port, context=_http1(proxy), timeout=PATIENCE)
        connection.set_tunnel(host, 443)
    else:
        connection = http.client.HTTPConnection(LOOPBACK, proxy.port, timeout=PATIENCE)
    statuses = []
    for _ in range(times):
        connection.request("POST", f"/{path}" if scheme == "https" else url, BODY, {"Host": host})
        answer = connection.getresponse()
        assert answer.read() in (b"%d" % len(BODY), b"from the origin")
        statuses.append(answer.status)
    connection.close()
    return statuses


def _http1(proxy: Proxy) -> ssl.SSLContext:
    """TLS of a program that rather speaks HTTP/1.1."""
    context = ssl.create_default_context(cafile=str(proxy.authority))
    context.set_alpn_protocols(["http/1.1", "h2"])  # mitmproxy offers the origin what it is offered
    return context


def by_httpx(proxy: Proxy, url: str, times: int, *, http2: bool = False) -> list[int]:
    with proxy.client(http2=http2) as client:
        found = [client.post(url, content=BODY) for _ in range(times)]
    assert {answer.http_version for answer in found} == {"HTTP/2" if http2 else "HTTP/1.1"}
    return [answer.status_code for answer in found]


def by_httpx_in_chunks(proxy: Proxy, url: str, times: int) -> list[int]:
    with proxy.client() as client:
        return [client.post(url, content=iter([BODY[:4], BODY[4:]])).status_code for _ in range(times)]


def by_http_2(proxy: Proxy, url: str, times: int) -> list[int]:
    return by_httpx(proxy, url, times, http2=True)


def by_http_2_in_chunks(proxy: Proxy, url: str, times: int) -> list[int]:
    with proxy.client(http2=True) as client:
        return [client.post(url, content=iter([BODY[:4], BODY[4:]])).status_code for _ in range(times)]


def by_curl(proxy: Proxy, url: str, times: int) -> list[int]:
    if which("curl") is None:
        pytest.skip("there is no curl")
    command = [
        "curl",
        "-sS",
        "-x",
        proxy.url,
        "--cacert",
        str(proxy.authority),
        "--http1.1",
        "-w",
        "%{stderr}%{http_code}\n",
    ]
    command += ["-d", BODY.decode(), f"{url}?[1-{times}]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return [int(line) for line in done.stderr.split()]


_NODE = """
const [url, port, ca, times, body] = JSON.parse(process.argv[1]);
const http = require("http"), https = require("https"), tls = require("tls");
class Tunnels extends https.Agent {
  createConnection(options, callback) {
    const asked = http.request({host: "127.0.0.1", port, method: "CONNECT", path: `${options.host}:443`, agent: false});
    asked.on("connect", (answer, socket) => callback(null, tls.connect({socket, servername: options.host, ca})));
    asked.on("error", callback).end();
  }
}
const is_tls = url.startsWith("https:"), keep = {keepAlive: true, maxSockets: 1};
const agent = is_tls ? new Tunnels(keep) : new http.Agent(keep), target = new URL(url);
const post = () => new Promise((resolve, reject) => {
  const asked = is_tls
    ? https.request({host: target.hostname, path: target.pathname, method: "POST", agent})
    : http.request({host: "127.0.0.1", port, path: url, method: "POST", headers: {Host: target.host}, agent});
  asked.on("response", answer => answer.resume().on("end", () => resolve(answer.statusCode)));
  asked.on("error", reject).end(body);
});
(async () => {
  const found = [];
  for (let i = 0; i < times; i++) found.push(await post().catch(error => error.code));
  console.log(JSON.stringify(found));
  process.exit();
})();
"""


def by_node(proxy: Proxy, url: str, times: int) -> list[int]:
    if which("node") is None:
        pytest.skip("there is no node")
    given = json.dumps([url, proxy.port, proxy.authority.read_text(), times, BODY.decode()])
    done = subprocess.run(["node", "-e", _NODE, given], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return list(json.loads(done.stdout))


#: each sends over http and https, but that there is no HTTP/2 without TLS
WAYS = [
    *(pytest.param(send, scheme) for send in (by_http_client, by_httpx_in_chunks) for scheme in ("http", "https")),
    pytest.param(by_http_2_in_chunks, "https"),
    *(
        pytest.param(send, scheme, marks=pytest.mark.thorough)
        for send, schemes in ((by_httpx, ("http", "https")), (by_http_2, ("https",)), (by_curl, ("http", "https")))
        for scheme in schemes
    ),
    *(pytest.param(by_node, scheme) for scheme in ("http", "https")),
]


def on_one_connection(proxy: Proxy, send: Send, url: str, times: int) -> list[int]:
    """The statuses of a client that has made one connection to the proxy, and no other."""
    start = len(proxy.log)
    statuses = send(proxy, url, times)
    proxy.log.wait_for("client disconnect", start)
    assert proxy.log.text(start).count("client connect") == 1
    return statuses


@pytest.mark.parametrize(("send", "scheme"), WAYS)
def test_no_upload_is_lost_where_the_origin_ends_its_connection(by_silent: Proxy, send: Send, scheme: str) -> None:
    assert on_one_connection(by_silent, send, f"{scheme}://good.test/upload", TIMES) == [200] * TIMES


@pytest.mark.parametrize("path", ["closing", "endless", "endless/closing"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_that_the_origin_says_so_is_not_for_the_client(by_silent: Proxy, scheme: str, path: str) -> None:
    assert on_one_connection(by_silent, by_http_client, f"{scheme}://good.test/{path}", 9) == [200] * 9


def test_no_upload_is_lost_where_the_origin_speaks_http_2(proxy: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived:
        assert on_one_connection(proxy, by_http_client, "https://good.test/upload", TIMES) == [200] * TIMES
    assert [(request.http_version, request.body) for request in arrived.requests] == [("2", len(BODY))] * TIMES


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("url", "http2"), [("http://good.test/", False), ("https://good.test/", True)])
def test_a_program_that_asks_by_get_and_a_body_is_answered(
    proxy: Proxy, origin: Origin, url: str, http2: bool, chunked: bool
) -> None:
    with origin.watch() as arrived, proxy.client(http2=http2) as client:
        for body in (BODY, b"", BODY):
            assert client.request("GET", url, content=iter([body]) if chunked else body).status_code == 200
    assert [request.body for request in arrived.requests] == [len(BODY), 0, len(BODY)]
    assert "transfer-encoding" not in arrived.requests[1].headers


def test_the_refusal_of_a_body_of_get_says_what_to_do(proxy: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, proxy.client() as client:
        refused = client.request("GET", "http://good.test/", content=b"GET /secret/ HTTP/1.1\r\n\r\n")
    assert refused.status_code == 403
    assert "send it by POST" in refused.text
    assert arrived.connections == 0


@pytest.mark.parametrize(("version", "line"), [("1.1", "Connection: close\r\n"), ("1.0", "")])
def test_who_wants_the_connection_to_end_is_told_that_it_does(by_silent: Proxy, version: str, line: str) -> None:
    head = f"POST http://good.test/ HTTP/{version}\r\nHost: good.test\r\nContent-Length: {len(BODY)}\r\n{line}\r\n"
    with by_silent.connect() as connection:
        connection.sendall(head.encode() + BODY)
        answer = read_answer(connection)
        assert (answer.body, answer.headers["connection"]) == (b"%d" % len(BODY), "close")
        assert connection.recv(1) == b""


def test_an_upload_behind_an_open_request_waits_at_the_client(by_silent: Proxy, silent: SilentOrigin) -> None:
    """The proxy reads no more of it than little; all of it arrives when the request before it is answered."""
    size = 64 << 20
    slow = b"POST http://good.test/slow HTTP/1.1\r\nHost: good.test\r\nContent-Length: 2\r\n\r\n{}"
    upload = b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: %d\r\n\r\n" % size
    with by_silent.connect() as connection:
        connection.sendall(slow + upload)
        assert silent.begun.wait(PATIENCE)
        connection.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < size:
                sent += connection.send(bytes(min(1 << 20, size - sent)))
        assert sent < size / 2  # what the system keeps for both ends
        silent.goes_on.set()
        connection.settimeout(PATIENCE)
        connection.sendall(bytes(size - sent))
        assert [read_answer(connection).body for _ in range(2)] == [b"2", b"%d" % size]
