"""Files that a scanner looks at, through a real proxy."""

from __future__ import annotations

import gzip
import io
import socket
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import monotonic

import brotli  # type: ignore[import-untyped]
import httpx
import pytest

from e2e.browser import chromium, wait_for_words, wait_until
from e2e.origin import PATIENCE, Origin
from e2e.plain_origin import PlainOrigin
from e2e.proxy import mitmdump
from e2e.test_streaming import read_head
from support.policies import write_policy
from support.scanners import EICAR, SpoiledClamd, c_icap, clamd, icap_service

pytestmark = pytest.mark.slow


def zipped(octets: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("eicar.com", octets)
    return file.getvalue()


def form(*contents: bytes) -> bytes:
    parts = (b'--q7\r\nContent-Disposition: form-data; name="f"\r\n\r\n%b\r\n' % content for content in contents)
    return b"".join(parts) + b"--q7--\r\n"


def serve(connection: socket.socket) -> None:
    """EICAR with a content coding, in chunks or in one piece."""
    head = read_head(connection)
    body = {b"/gzip": gzip.compress, b"/br": brotli.compress}.get(head.split()[1], bytes)(EICAR)
    coding = head.split()[1][1:]
    if coding in (b"gzip", b"br"):
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body))
        )
        connection.sendall(body)
        return
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for octet in body:
        connection.sendall(b"1\r\n%c\r\n" % octet)
    connection.sendall(b"0\r\n\r\n")


@pytest.mark.parametrize("kind", ["clamd", "icap", "c-icap"])
def test_what_is_infected_gets_the_page_with_its_name(tmp_path: Path, origin: Origin, kind: str) -> None:
    fine = b"fine" * 100_000
    scanners = {"clamd": partial(clamd, tmp_path), "icap": icap_service, "c-icap": partial(c_icap, tmp_path)}
    with scanners[kind]() as scanner:
        scanner = scanner.replace("127.0.0.1", "self.test")
        policy = write_policy(tmp_path, f"files: [{{infected: true, for: both}}]\nscanner: {{address: '{scanner}'}}\n")
        name = "Own.Eicar" if kind == "icap" else "Hushlist.Test.Eicar"
        origin.pages |= {"/plain": ("text/plain", EICAR), "/fine": ("text/plain", fine)}
        origin.pages |= {"/deep": ("application/x", fine + EICAR + fine), "/zip": ("application/zip", zipped(EICAR))}
        wanted = ["/plain", "/deep", *([] if kind == "icap" else ["/zip"])]
        with mitmdump(tmp_path, origin, policy=policy) as proxy:
            for http2 in (False, True):
                with proxy.client(http2=http2, timeout=PATIENCE) as client:
                    client.headers["Accept"] = "text/html"
                    base = f"{'https' if http2 else 'http'}://good.test"
                    assert [name in client.get(base + page).text for page in wanted] == [True] * len(wanted)
                    assert name in client.get(f"{base}/deep", headers={"Range": "bytes=5-"}).text
                    assert client.get(f"{base}/fine").content == fine
                    typed = {"Content-Type": "multipart/form-data; boundary=q7"}
                    with origin.watch() as arrivals:
                        assert name in client.post(base, content=EICAR).text
                        assert name in client.post(base, content=form(b"a", EICAR), headers=typed).text
                        assert client.post(base, content=form(b"a", b"b"), headers=typed).status_code == 200
                    assert [request.body for request in arrivals.requests] == [len(form(b"a", b"b"))]
        with (
            PlainOrigin(serve) as coding,
            mitmdump(tmp_path, coding, policy=policy) as proxy,
            proxy.client(timeout=PATIENCE) as client,
        ):
            client.headers["Accept"] = "text/html"
            pages = ("gzip", "br", "chunked")
            assert [name in client.get(f"http://good.test/{page}").text for page in pages] == [True] * 3


@pytest.mark.parametrize(("on_failure", "status"), [("block", 403), ("pass", 200)])
def test_a_scanner_that_says_nothing_delays_nobody_else(
    tmp_path: Path, origin: Origin, on_failure: str, status: int
) -> None:
    origin.pages |= {"/data.bin": ("application/x", b"a" * 50_000)}
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        hanging.settimeout(PATIENCE)
        port = hanging.getsockname()[1]
        policy = write_policy(
            tmp_path,
            "files: [{infected: true, types: application/*}]\n"
            f"scanner: {{address: 'clamd://self.test:{port}', seconds: 4, on-failure: {on_failure}}}\n",
        )
        with (
            mitmdump(tmp_path, origin, policy=policy) as proxy,
            proxy.client(timeout=PATIENCE) as client,
            ThreadPoolExecutor() as beside,
        ):
            waiting = beside.submit(client.get, "http://good.test/data.bin")
            with hanging.accept()[0]:
                before = monotonic()
                assert client.get("http://good.test/").status_code == 200
                assert monotonic() - before < 3
                assert not waiting.done()
                assert waiting.result().status_code == status


def test_a_person_who_waits_for_a_scan_gets_a_page_and_then_the_file_once(tmp_path: Path, origin: Origin) -> None:
    octets = b"a" * 50_000
    origin.pages |= {"/a/data.bin": ("application/x", octets)}
    with socket.create_server(("127.0.0.1", 0)) as slow:
        slow.settimeout(PATIENCE)
        policy = write_policy(
            tmp_path,
            f"files: [{{infected: true}}]\nscanner: {{address: 'clamd://self.test:{slow.getsockname()[1]}'}}\n"
            "log: {folder: log}\n",
        )
        with (
            mitmdump(tmp_path, origin, policy=policy) as proxy,
            proxy.client(timeout=PATIENCE) as client,
            origin.watch() as arrivals,
        ):
            client.headers["Accept"] = "text/html,*/*"
            for said, status, content in (
                (b"stream: OK\0", 200, octets),
                (b"stream: Bad.Name FOUND\0", 403, b"Bad.Name"),
            ):
                page = client.get("http://good.test/a/data.bin?q")
                assert "This file is being checked" in page.text
                assert "allow-scripts allow-downloads" in page.headers["Content-Security-Policy"]
                target = page.headers["Refresh"].partition("url=")[2]
                assert client.get(f"http://good.test{target}").headers["Refresh"] == page.headers["Refresh"]
                for method, url, accept in (
                    ("GET", f"http://good.test{target}x", "text/html"),
                    ("GET", f"http://other.test{target}", "text/html"),
                    ("GET", f"https://good.test{target}", "text/html"),
                    ("HEAD", f"http://good.test{target}", "*/*"),
                    ("GET", f"http://good.test{target.replace('file', '%66ile')}", "*/*"),
                ):
                    assert client.request(method, url, headers={"Accept": accept}).status_code == 404
                with slow.accept()[0] as asked:
                    asked.sendall(said)
                    answer = page
                    while "Refresh" in answer.headers:
                        answer = client.get(f"http://good.test{target}")
                assert answer.status_code == status
                assert content in answer.content
                again = client.get(f"http://good.test{target}")
                assert (again.status_code, again.headers["Location"]) == (303, "/a/data.bin?q")
                if status == 200:
                    assert answer.headers["Content-Disposition"] == 'attachment; filename="data.bin"'
                    assert answer.headers["Content-Security-Policy"] == "sandbox"
        assert [arrival.target for arrival in arrivals.requests] == [b"/a/data.bin?q"] * 2
    assert (tmp_path / "log" / "decisions.jsonl").read_text().count("Bad.Name") >= 1


def test_who_waits_for_a_scan_gets_octets_meanwhile_but_never_all(tmp_path: Path, origin: Origin) -> None:
    origin.pages |= {"/data.bin": ("application/x", b"a" * 50_000)}
    with socket.create_server(("127.0.0.1", 0)) as slow:
        slow.settimeout(PATIENCE)
        policy = write_policy(
            tmp_path,
            f"files: [{{infected: true}}]\nscanner: {{address: 'clamd://self.test:{slow.getsockname()[1]}'}}\n",
        )
        with (
            mitmdump(tmp_path, origin, policy=policy) as proxy,
            proxy.client(timeout=PATIENCE) as client,
        ):
            for said in (b"stream: OK\0", b"stream: Bad FOUND\0"):
                received = bytearray()
                with client.stream("GET", "http://good.test/data.bin") as answer:  # its head comes before the verdict
                    asked = slow.accept()[0]
                    with asked:
                        octets = answer.iter_raw()
                        received += next(octets)
                        asked.sendall(said)
                        with pytest.raises(httpx.RemoteProtocolError) if b"FOUND" in said else nullcontext():
                            for piece in octets:
                                received += piece
                assert len(received) == (50_000 if b"OK" in said else 1)


def test_a_scan_ends_with_its_client_and_leaves_its_turn(tmp_path: Path, origin: Origin) -> None:
    origin.pages |= {"/data.bin": ("application/x", b"a" * 50_000)}
    with SpoiledClamd() as scanner:
        scanner.does = SpoiledClamd.hang
        policy = write_policy(
            tmp_path,
            "files: [{infected: true, for: both}]\n"
            f"scanner: {{address: 'clamd://self.test:{scanner.port}', seconds: 600, at-once: 2}}\n",
        )
        with mitmdump(tmp_path, origin, policy=policy) as proxy, origin.watch() as arrivals:

            def has_ended() -> bool:
                return scanner.left.get(timeout=PATIENCE) is scanner.connected.get(timeout=PATIENCE)

            # a client has one turn, so the next one waits until that is free
            for method, more in ((b"GET", b""), (b"PUT", b"Content-Length: 5\r\n"), (b"GET", b"")):
                with proxy.connect() as client:
                    client.sendall(b"%b http://good.test/data.bin HTTP/1.1\r\nHost: good.test\r\n" % method)
                    client.sendall(more + b"\r\n" + b"abcde" * bool(more))
                    scanner.connected.put(scanner.connected.get(timeout=PATIENCE))
                assert has_ended()
            with proxy.client(http2=True, timeout=PATIENCE) as client:
                client.stream("GET", "https://good.test/data.bin").__enter__()  # its head comes while it is scanned
            assert has_ended()
            scanner.does = SpoiledClamd.scan
            assert len(proxy.get("http://good.test/data.bin").content) == 50_000
            assert "Traceback" not in proxy.log.text()
    assert [arrival.method for arrival in arrivals.requests] == ["GET"] * 4


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_browser_shows_the_page_and_then_saves_the_file(tmp_path: Path, origin: Origin, scheme: str) -> None:
    origin.pages |= {"/slow.bin": ("application/x", b"slow text " * 5_000)}
    saved = tmp_path / "saved"
    with socket.create_server(("127.0.0.1", 0)) as slow:
        slow.settimeout(PATIENCE)
        policy = write_policy(
            tmp_path,
            f"files: [{{infected: true}}]\nscanner: {{address: 'clamd://self.test:{slow.getsockname()[1]}'}}\n",
        )
        with mitmdump(tmp_path, origin, policy=policy) as proxy, chromium(proxy, tmp_path) as browser:
            browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(saved)})
            browser.get(f"{scheme}://good.test/slow.bin")
            wait_for_words(browser, "This file is being checked")
            with slow.accept()[0] as asked:
                asked.sendall(b"stream: OK\0")
                wait_until(browser, lambda _: (saved / "slow.bin").exists())
        assert (saved / "slow.bin").read_bytes() == b"slow text " * 5_000


@pytest.mark.thorough
def test_a_warning_comes_before_the_scan_and_leads_to_the_page(tmp_path: Path, origin: Origin) -> None:
    origin.pages |= {"/a/data.bin": ("application/x", b"a" * 50_000)}
    with socket.create_server(("127.0.0.1", 0)) as slow:
        slow.settimeout(PATIENCE)
        policy = write_policy(
            tmp_path,
            "files: [{infected: true}, {types: application/x, action: warn}]\n"
            f"scanner: {{address: 'clamd://self.test:{slow.getsockname()[1]}'}}\n",
        )
        with mitmdump(tmp_path, origin, policy=policy) as proxy, chromium(proxy, tmp_path) as browser:
            browser.get("https://good.test/a/data.bin")
            wait_for_words(browser, "Do you want to go on?")
            browser.find_element("css selector", "button").click()
            wait_for_words(browser, "This file is being checked")
            with slow.accept()[0] as asked:
                asked.sendall(b"stream: Bad.Name FOUND\0")
                wait_for_words(browser, "Bad.Name")
