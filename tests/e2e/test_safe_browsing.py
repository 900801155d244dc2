"""A real mitmdump with lists of Safe Browsing: what waits for an answer does not reach the origin, not even in part."""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from e2e.list_server import list_server
from e2e.origin import PATIENCE, Origin
from e2e.proxy import LOOPBACK, Proxy, eventually, read_answer, request_head
from e2e.test_subscriptions import make_due
from e2e.test_tunnels import is_the_origin_s, tls_over
from hushlist.core.match.expressions import full_hash
from support.prefix_server import PrefixServer

Start = Callable[..., Proxy]
SECRET = "AIzaSyNobodyMaySeeThis"
VERSIONS = pytest.mark.parametrize("version", [pytest.param(4, marks=pytest.mark.thorough), 5])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefixServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with PrefixServer(b"bad.test/", b"path.test/bad/") as server:
        server.add_prefix_of(b"odd.test/")
        yield server


def policy_of(folder: Path, server: PrefixServer, version: int = 5, no_answer: str = "pass", more: str = "") -> Path:
    (folder / "api.key").write_text(SECRET)
    (folder / "api.key").chmod(0o600)
    policy = folder / "policy.yaml"
    policy.write_text(
        f"layers:\n- name: lists\n  lists:\n  - safe-browsing:\n      version: {version}\n"
        f"      lists: [{'mw-4b' if version == 5 else 'MALWARE'}]\n      server: {server.url}\n"
        f"      api-key-file: api.key\n      no-answer: {no_answer}\n"
        f"      category: {{MALWARE: 'hrn://school.example/web/malware'}}\n"
        f"log: {{folder: log, what: all}}\n{more}"
    )
    return policy


def status(proxy: Proxy, url: str) -> int:
    return proxy.get(url).status_code


@VERSIONS
def test_what_the_server_confirms_is_blocked_and_all_else_passes(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin, version: int
) -> None:
    proxy = start(policy=policy_of(tmp_path, server, version))
    with origin.watch() as arrived:
        page = proxy.get("https://bad.test/x?y")
        assert (page.status_code, status(proxy, "http://www.bad.test/")) == (403, 403)
        assert status(proxy, "http://path.test/bad/x") == 403
    assert arrived.requests == []
    assert "This page may be harmful" in page.text
    assert "Google" not in page.text
    assert "hrn://school.example/web/malware" in page.text
    for url in ("http://odd.test/", "https://path.test/good", "http://good.test/bad/"):
        assert status(proxy, url) == 200
    asked = len(server.searches())
    assert (status(proxy, "https://bad.test/other"), status(proxy, "http://odd.test/other")) == (403, 200)
    assert len(server.searches()) == asked == 3
    sent = repr(server.requests).encode()
    for name in (b"bad.test", b"odd.test", full_hash(b"bad.test/").hex().encode(), full_hash(b"bad.test/")):
        assert name not in sent


def test_a_request_that_waits_holds_itself_alone_and_nothing_of_it_goes_on(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin
) -> None:
    proxy = start(policy=policy_of(tmp_path, server), options={"stream_large_bodies": "1"})
    server.answers.clear()
    size = 300_000
    head = request_head(b"http://bad.test/up", b"bad.test", method=b"POST", headers=[b"Content-Length: %d" % size])
    with origin.watch() as arrived, proxy.connect() as waiting:
        waiting.sendall(head + bytes(size))
        assert eventually(lambda: len(server.searches()) == 1)
        assert status(proxy, "http://good.test/") == 200  # others go on
        server.answers.set()
        with suppress(ConnectionError):  # what is streamed cannot be answered: the connection ends
            assert read_answer(waiting, "POST").status == 403
    assert [request.host for request in arrived.requests] == ["good.test"]


@pytest.mark.parametrize(
    ("how", "no_answer", "expected"),
    [
        ("it fails", "block", 403),
        ("it says nothing", "pass", 200),
        pytest.param("it fails", "pass", 200, marks=pytest.mark.thorough),
        pytest.param("it says nothing", "block", 403, marks=pytest.mark.thorough),
    ],
)
def test_without_an_answer_the_policy_says_what_is_done(
    start: Start, tmp_path: Path, server: PrefixServer, how: str, no_answer: str, expected: int
) -> None:
    proxy = start(policy=policy_of(tmp_path, server, no_answer=no_answer))
    if how == "it fails":
        server.bend = lambda _method, _octets: (503, b"")
    else:
        server.answers.clear()
    began = time.monotonic()
    page = proxy.get("http://bad.test/")
    assert page.status_code == expected
    assert time.monotonic() - began < PATIENCE
    assert ("could not be checked in time" in page.text) is (expected == 403)
    assert status(proxy, "http://odd.test/") == expected
    assert status(proxy, "http://good.test/") == 200
    assert len(server.searches()) == 1  # then it is left alone


def test_a_tunnel_a_websocket_and_http_2_are_asked_for_too(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin
) -> None:
    proxy = start(policy=policy_of(tmp_path, server))
    with origin.watch() as arrived:
        upgrade = [b"Upgrade: websocket", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Sec-WebSocket-Version: 13"]
        assert proxy.send(request_head(b"http://path.test/bad/s", b"path.test", headers=upgrade)).status == 403
        with proxy.client(http2=True) as client:
            answer = client.get("https://path.test/bad/x")
            assert (answer.status_code, answer.http_version) == (403, "HTTP/2")
            assert client.get("https://path.test/good").status_code == 200
    assert [request.target for request in arrived.requests] == [b"/good"]


@pytest.mark.parametrize("how", ["decrypt: never", "ignore_hosts", "where-needed"])
def test_what_is_not_decrypted_is_decided_by_the_prefixes_of_hosts(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin, how: str
) -> None:
    more = {"decrypt: never": "decrypt: never\n", "where-needed": "decrypt: where-needed\n"}.get(how, "")
    policy = policy_of(tmp_path, server, more=more)
    if how == "where-needed":
        policy.write_text(policy.read_text().replace("\nlog:", "\n    covers: hosts\nlog:"))
    proxy = start(policy=policy, options={"ignore_hosts": "."} if how == "ignore_hosts" else {})
    for asked, (host, passes) in enumerate((("good.test", True), ("bad.test", False), ("odd.test", True))):
        is_through = False
        with origin.watch() as arrived, suppress(ConnectionError, ssl.SSLError), proxy.connect() as tunnel:
            tunnel.sendall(b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % host.encode())
            if read_answer(tunnel, "CONNECT").status == 200:
                with tls_over(tunnel, host) as tls:
                    is_through = is_the_origin_s(tls)
        assert (host, is_through, bool(arrived.connections)) == (host, passes, passes)
        assert len(server.searches()) == asked  # nothing is asked about the first


def test_raw_data_that_waits_for_its_end_is_decided_before_any_of_it_goes_on(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin
) -> None:
    proxy = start(policy=policy_of(tmp_path, server), options={"ignore_hosts": "."})
    server.answers.clear()
    hello = hello_of("bad.test")
    with origin.watch() as arrived, proxy.tunnel("good.test", 443) as tunnel:
        tunnel.sendall(hello[:60])
        time.sleep(0.2)  # two pieces: the first is held
        tunnel.sendall(hello[60:])
        assert eventually(lambda: len(server.searches()) == 1)
        assert status(proxy, "http://good.test/") == 200
        server.answers.set()
        with suppress(ConnectionError):
            assert tunnel.recv(1000) == b""
    assert [request.scheme for request in arrived.requests] == ["http"]
    assert arrived.connections == 1


def hello_of(name: str) -> bytes:
    """A ClientHello with a server name."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def test_a_client_that_leaves_while_it_waits_does_no_harm(start: Start, tmp_path: Path, server: PrefixServer) -> None:
    proxy = start(policy=policy_of(tmp_path, server))
    server.answers.clear()
    for _ in range(5):
        with proxy.connect() as leaving:
            leaving.sendall(request_head(b"http://bad.test/", b"bad.test"))
            assert eventually(lambda: len(server.searches()) == 1)
    server.answers.set()
    assert status(proxy, "http://bad.test/") == 403
    assert "Traceback" not in proxy.log.text()


def test_the_list_updates_itself_and_no_word_of_the_key_is_told(
    start: Start, tmp_path: Path, server: PrefixServer
) -> None:
    policy = policy_of(tmp_path, server)
    proxy = start(policy=policy)
    assert status(proxy, "http://new.test/") == 200
    server.put(b"new.test/")
    make_due(policy)
    proxy.log.wait_for(r"hashList/mw-4b: updated \+1 -0 lines")
    assert eventually(lambda: status(proxy, "http://new.test/") == 403)
    page = proxy.get("http://hushlist.internal/").text + proxy.get("http://hushlist.internal/metrics").text
    server.bend = lambda _method, _octets: (403, b"")
    make_due(policy)
    proxy.log.wait_for(r"hashList/mw-4b: failed: the server says 403")
    proxy.stop()
    written = [
        json.loads(line) for path in (tmp_path / "log").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert [line for line in written if line["action"] == "block"]
    assert SECRET not in page + proxy.log.text() + repr(written)


def test_many_that_wait_do_not_stop_the_others(start: Start, tmp_path: Path, server: PrefixServer) -> None:
    server.put(*(b"many%d.test/" % number for number in range(100)))
    proxy = start(policy=policy_of(tmp_path, server))
    server.answers.clear()
    connections = [proxy.connect() for _ in range(100)]
    try:
        for number, waiting in enumerate(connections):
            host = b"many%d.test" % number
            waiting.sendall(request_head(b"http://%b/" % host, host))
        assert eventually(lambda: len(server.searches()) == 4)  # as many as are asked at once
        began = threading.Event()
        assert status(proxy, "http://good.test/") == 200
        began.set()
    finally:
        server.answers.set()
        for waiting in connections:
            waiting.close()


def flooding(number: int) -> tuple[bytes, list[bytes]]:
    """A host with a path, and the expressions that it has, none of which another one has."""
    host, path = b"a.b.c.f%d.test" % number, b"/1/2/3/4?5"
    hosts = [host.split(b".", cut)[-1] for cut in range(4)]
    return host + path, [
        own + part for own in hosts for part in (path, b"/1/2/3/4", b"/", b"/1/", b"/1/2/", b"/1/2/3/")
    ]


def test_a_pupil_who_floods_gains_nothing_and_holds_nobody_back(
    start: Start, tmp_path: Path, server: PrefixServer, origin: Origin
) -> None:
    """``no-answer: pass`` is about a server that fails; here, it only has more to do than it can."""
    floods = [flooding(number) for number in range(10)]
    for _, expressions in floods:
        server.others |= {full_hash(expression)[:4] for expression in expressions}
    server.put()
    proxy = start(policy=policy_of(tmp_path, server), scripts=["patient.py"])
    server.answers.clear()

    def has_asked(times: int) -> bool:
        return len(server.searches()) == times

    waiting = [proxy.connect() for _ in floods]
    try:
        with origin.watch() as arrived:
            for number, ((url, _), pupil) in enumerate(zip(floods, waiting, strict=True), 1):
                pupil.sendall(request_head(b"http://" + url, url.partition(b"/")[0]))
                assert eventually(partial(has_asked, min(number, 4)))  # so many are on their way at once
            refused, _, _ = select.select(waiting, [], [], PATIENCE)
            assert read_answer(refused[0]).status == 403  # before the server has answered anything
            page = proxy.get("http://bad.test/")
            assert (page.status_code, "could not be checked in time" in page.text) == (403, True)
            with socket.create_connection((LOOPBACK, proxy.port), PATIENCE, ("127.0.0.2", 0)) as teacher:
                teacher.sendall(request_head(b"http://odd.test/", b"odd.test"))
                assert arrived.requests == []
                server.answers.set()
                assert read_answer(teacher).status == 200
        assert "odd.test" in [request.host for request in arrived.requests]
        assert (status(proxy, "http://bad.test/"), status(proxy, "http://odd.test/")) == (403, 200)
    finally:
        server.answers.set()
        for pupil in waiting:
            pupil.close()
    assert "is not asked again" not in proxy.log.text()


@VERSIONS
def test_our_client_follows_our_server(
    start: Start, tmp_path: Path, origin: Origin, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    school = tmp_path / "school"
    school.mkdir()
    (school / "policy.yaml").write_text("layers: [{name: school, lists: [games.domains, phishing.domains]}]")
    (school / "games.domains").write_text("blocked.test\npath.test/games\n")
    (school / "phishing.domains").write_text("phish.test\n")
    (tmp_path / "policy.yaml").write_text("")
    chosen = ("--list", "games.domains=MALWARE", "--list", "phishing.domains=SOCIAL_ENGINEERING")
    with list_server(school, "--wait", "1", *chosen) as server:
        name = "mw-4b, se-4b" if version == 5 else "MALWARE, SOCIAL_ENGINEERING"
        policy = tmp_path / "policy.yaml"
        policy.write_text(
            f"layers:\n- name: lists\n  lists:\n  - safe-browsing: {{version: {version}, lists: [{name}], "
            f"server: '{server.url}'}}\n    reason: The school says so\n"
        )
        proxy = start(policy=policy)
        with origin.watch() as arrived:
            page = proxy.get("https://www.blocked.test/x")
        assert (page.status_code, arrived.requests) == (403, [])
        assert "The school says so" in page.text
        assert status(proxy, "http://phish.test/") == 403
        asked = "batchGet" if version == 5 else "threatListUpdates"
        assert len(re.findall(asked, server.log.text())) == 1  # for both lists
        assert status(proxy, "http://neighbour.test/") == 200
        (school / "games.domains").write_text("other.test\n")
        server.log.wait_for("mw-4b: version 2")
        make_due(policy)
        proxy.log.wait_for(r"updated \+1 -2 lines")
        assert eventually(lambda: status(proxy, "http://other.test/") == 403)
        assert status(proxy, "http://www.blocked.test/later") == 200
