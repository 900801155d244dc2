"""An exam page that loads from six hosts, in Chromium, by an allow list of one."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.browser import BROWSER, DRIVER, chromium, wait_for_words
from e2e.origin import LOOPBACK, write_certificate
from e2e.policies import replace, write_list
from e2e.proxy import Proxy, mitmdump

pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="there is no Chromium on PATH"),
    pytest.mark.skipif(not DRIVER, reason="there is no chromedriver on PATH"),
    pytest.mark.xdist_group("chromium"),
]

PAGE = """<link rel=stylesheet href=//style.test/a.css><body><p id=said>loading</p><img src=//picture.test/a.svg>
<img src=//ads.test/a.svg><script src=//script.test/a.js></script>"""
SCRIPT = """fetch("//data.test/a.json").then(got => got.text()).then(text => {
    const show = () => said.textContent = text
    document.readyState == "complete" ? show() : addEventListener("load", show)
})"""
FILES = {
    ("exam.test", "/"): ("text/html", PAGE),
    ("style.test", "/a.css"): ("text/css", "body {background: url(//background.test/a.svg)}"),
    ("script.test", "/a.js"): ("text/javascript", SCRIPT),
    ("data.test", "/a.json"): ("application/json", "whole"),
}
PICTURE = ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")


class Exam:
    """Serves the files, by both ports, and knows the hosts that it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.hosts = hosts = set[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host = self.headers.get("Host", "")
                hosts.add(host)
                kind, text = FILES.get((host, self.path), PICTURE)
                self.send_response(200)
                for name, value in (("Content-Type", kind), ("Access-Control-Allow-Origin", "*")):
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._servers = [ThreadingHTTPServer((LOOPBACK, 0), Handler) for _ in range(2)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*write_certificate(folder))
        self._servers[1].socket = context.wrap_socket(self._servers[1].socket, server_side=True)
        self.http_port, self.https_port = (server.server_address[1] for server in self._servers)

    def __enter__(self) -> Exam:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def exam(tmp_path: Path) -> Iterator[Exam]:
    with Exam(tmp_path) as running:
        yield running


@pytest.fixture
def proxy(tmp_path: Path, exam: Exam) -> Iterator[Proxy]:
    write_list(tmp_path / "allowed.yaml", {"expression": "exam.test/", "action": "allow"})
    write_list(tmp_path / "blocked.yaml", "ads.test/")
    layers = "- {name: blocked, lists: [blocked.yaml]}\n- {name: exam, lists: [allowed.yaml], with: needs}\n"
    policy = replace(tmp_path / "policy.yaml", f"default: block\nlayers:\n{layers}")
    (tmp_path / "proxy").mkdir()
    with mitmdump(tmp_path / "proxy", exam, policy=policy) as running:
        yield running


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.thorough), "https"])
def test_the_page_is_whole_and_nothing_else_is_open(proxy: Proxy, exam: Exam, tmp_path: Path, scheme: str) -> None:
    with chromium(proxy, tmp_path / "browser") as browser:
        browser.get(f"{scheme}://exam.test/")
        wait_for_words(browser, "whole")
        needed = {"exam.test", "style.test", "background.test", "script.test", "data.test", "picture.test"}
        assert exam.hosts == needed
        browser.get(f"{scheme}://style.test/")
        wait_for_words(browser, "blocked")
