"""The server's HTTP: who is answered, how often, and what the log has of it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import sleep
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.web import Application

from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing.prefix_list import PrefixUpdate
from hushlist.tools.publish import list_server
from hushlist.tools.publish.list_history import ListHistory
from hushlist.tools.publish.list_server import ListServer, RequestLog, ServerLimits
from hushlist.tools.publish.published_list import PublishedList
from hushlist.tools.publish.safebrowsing_service import LIST_NAMES, ApiRequest, SafeBrowsingService

FULL = full_hash(b"blocked.example/")
SEARCH = "/v5/hashes:search?hashPrefixes=" + urlsafe_b64encode(FULL[:4]).decode()


@contextmanager
def running(tmp_path: Path, tls: ssl.SSLContext | None = None, **limits: Any) -> Iterator[tuple[str, list[RequestLog]]]:
    """A server in a thread of its own: where it listens, and its log."""
    histories = {int(threat): ListHistory(tmp_path / name, int(threat)) for threat, name in LIST_NAMES.items()}
    service = SafeBrowsingService(histories, 300.0, {1: PublishedList(FULL)})
    for number, history in histories.items():
        history.add(service.lists.get(number, PublishedList()).prefixes())
    log: list[RequestLog] = []
    started, ports, ends = Event(), list[int](), list[Any]()

    async def serve() -> None:
        over = asyncio.Event()
        ends.extend((asyncio.get_running_loop(), over))
        server = ListServer(service, ServerLimits(**limits), log.append)
        ports.append(server.listen("127.0.0.1", 0, tls))
        started.set()
        await over.wait()
        server.close()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(60)
    try:
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{ports[0]}", log
    finally:
        ends[0].call_soon_threadsafe(ends[1].set)
        thread.join(60)


def test_requests_are_answered_and_logged_without_what_they_ask_for(tmp_path: Path) -> None:
    with running(tmp_path) as (url, log), httpx.Client(base_url=url) as client:
        found = client.get(SEARCH + "&alt=json&key=local").json()
        assert found["fullHashes"][0]["fullHashDetails"] == [{"threatType": "MALWARE"}]
        updated = client.get("/v5/hashList/mw-4b")
        assert updated.headers["content-type"] == "application/x-protobuf"
        assert updated.headers["cache-control"] == "no-store"
        assert "server" not in updated.headers
        body = json.dumps({"threatInfo": {"threatEntries": [{"hash": "AAAAAA=="}]}})
        assert client.post("/v4/fullHashes:find", content=body).json() == {"negativeCacheDuration": "300s"}
        assert client.get("/v4/encodedFullHashes/GggaBgoEAAAAAA==").status_code == 200
        assert client.get("/v4%2FencodedFullHashes%2FGggaBgoEAAAAAA==").status_code == 200
        assert client.get("/elsewhere/x/y/z").status_code == 404
        assert client.put("/v4/threatLists").status_code == 405
    told = [(one.method, one.path, one.status) for one in log]
    assert told == [
        ("GET", "/v5/hashes:search", 200),
        ("GET", "/v5/hashList", 200),
        ("POST", "/v4/fullHashes:find", 200),
        ("GET", "/v4/encodedFullHashes", 200),
        ("GET", "/v4/encodedFullHashes", 200),
        ("GET", "/elsewhere/x", 404),
    ]
    assert log[0].prefixes == (FULL[:4].hex(),)


def test_only_clients_with_a_key_are_answered(tmp_path: Path) -> None:
    with running(tmp_path, keys=("good", "other")) as (url, _), httpx.Client(base_url=url) as client:
        for query, headers, status in (
            ("", {}, 403),
            ("&key=bad", {}, 403),
            ("&key=g%C3%B6od", {}, 403),
            ("&key=good", {}, 200),
            ("", {"X-Goog-Api-Key": "other"}, 200),
        ):
            assert client.get(SEARCH + query, headers=headers).status_code == status


def test_who_asks_too_often_has_to_wait(tmp_path: Path) -> None:
    with running(tmp_path, rate=3, keys=("a", "b")) as (url, _), httpx.Client(base_url=url) as client:
        answers = [client.get(f"{SEARCH}&key=a") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[3].headers["retry-after"] == "60"
        assert client.get(f"{SEARCH}&key=b").status_code == 200


def test_a_long_body_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as (url, _), httpx.Client(base_url=url) as client:
        with suppress(httpx.TransportError):  # it need not read all of it
            assert client.post("/v4/fullHashes:find", content=b"x" * (1 << 21)).status_code in (400, 413)
        assert client.get(SEARCH).status_code == 200


@pytest.mark.parametrize("of", ["MOST_CONNECTIONS", "MOST_OF_ADDRESS"])
def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    monkeypatch.setattr(list_server, of, 2)
    with running(tmp_path) as (url, _):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with socket.create_connection(address, 60) as first, socket.create_connection(address, 60) as second:
            for one in (first, second):
                one.sendall(b"GET /v4/threatLists HTTP/1.1\r\nHost: a\r\n\r\n")
                assert one.recv(100).startswith(b"HTTP/1.1 200")
            with socket.create_connection(address, 60) as third:
                assert third.recv(100) == b""
        for _ in range(600):
            try:
                assert httpx.get(f"{url}{SEARCH}").status_code == 200
                break
            except httpx.TransportError:
                asyncio.run(asyncio.sleep(0.1))
        else:
            pytest.fail("it counts connections that are closed")


def test_a_network_of_ipv6_is_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has any number of addresses; those of other networks, and each of IPv4, are others'."""
    addresses = ["2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"]
    server, asked = ListServer(Any, ServerLimits(), print), ApiRequest("GET", "/", "", "", b"")  # type: ignore[arg-type]
    callers = [server._caller_of(asked, address, "") for address in addresses]
    assert [callers.index(caller) for caller in callers] == [0, 0, 2, 3, 4]
    taken, closed = list[str](), list[str]()
    monkeypatch.setattr(list_server, "MOST_OF_ADDRESS", 1)
    monkeypatch.setattr(HTTPServer, "handle_stream", lambda _, stream, address: taken.append(address[0]))
    bounded = list_server._BoundedServer(Application())
    for address in addresses:
        stream = SimpleNamespace(close=partial(closed.append, address))
        bounded.handle_stream(stream, (address, 1))  # type: ignore[arg-type]
    assert (taken, closed) == ([one for one in addresses if one != "2001:db8::2:3"], ["2001:db8::2:3"])


@pytest.mark.slow
def test_too_many_updates_at_one_time_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_server, "MOST_UPDATES", 1)
    goes_on, is_in = Event(), Event()
    answer = SafeBrowsingService.answer

    def slow(own: SafeBrowsingService, request: Any) -> Any:
        if "hashList/" in request.path:
            is_in.set()
            assert goes_on.wait(60)
        return answer(own, request)

    monkeypatch.setattr(SafeBrowsingService, "answer", slow)
    with running(tmp_path) as (url, _), ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.get, f"{url}/v5/hashList/mw-4b", timeout=60)
        assert is_in.wait(60)
        for path in ("hashList/mw-4b", "hashList%2Fmw-4b", "%68ashList/mw-4b", "hashLists:b%61tchGet?names=mw-4b"):
            assert httpx.get(f"{url}/v5/{path}").status_code == 503
        assert httpx.get(f"{url}{SEARCH}").status_code == 200  # look-ups go on
        goes_on.set()
        assert first.result().status_code == 200


@pytest.mark.slow
def test_updates_of_callers_are_made_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who floods the server with requests that take long is bounded, and holds nobody back."""
    monkeypatch.setattr(list_server, "MOST_OF_CALLER", 2)
    goes_on, made, answer = Event(), list[str](), SafeBrowsingService.answer

    def slow(own: SafeBrowsingService, request: Any) -> Any:
        assert goes_on.wait(60)
        made.append(request.query)
        return answer(own, request)

    monkeypatch.setattr(SafeBrowsingService, "answer", slow)
    with running(tmp_path, keys=("a", "b")) as (url, _), ThreadPoolExecutor(6) as pool:
        sent = []
        for key in "ab":
            own = [pool.submit(httpx.get, f"{url}/v5/hashList/mw-4b?key={key}", timeout=60) for _ in range(3)]
            turned_away, others = wait(own, 60, FIRST_COMPLETED)  # so the other two are there
            assert [one.result().status_code for one in turned_away] == [429]
            sent += others
        goes_on.set()
        assert [one.result().status_code for one in sent] == [200] * 4
    assert made == ["key=a", "key=b", "key=a", "key=b"]


@pytest.mark.slow
@pytest.mark.thorough
def test_who_does_not_take_an_answer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_server, "SENDING", 0.2)
    monkeypatch.setattr(list_server, "MOST_UPDATES", 1)
    large = PrefixUpdate(b"1", [b"aaaa"] * 4_000_000, checksum=b"x" * 32)  # more than the system buffers
    monkeypatch.setattr(ListHistory, "update_from", lambda *_: (large, True))
    wanted = {"threatType": "MALWARE", "platformType": "LINUX", "threatEntryType": "URL"}
    body = json.dumps({"listUpdateRequests": [wanted]}).encode()
    head = b"POST /v4/threatListUpdates:fetch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running(tmp_path) as (url, log), socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        deaf.sendall(head + body)
        for _ in range(600):
            if log and httpx.get(f"{url}/v5/hashes:search?hashPrefixes=AAAAAA").status_code == 200:
                answer = httpx.get(f"{url}/v5/hashList/none", timeout=60)
                if answer.status_code == 404:  # and not 503
                    break
            sleep(0.1)
        else:
            pytest.fail("the update that nobody takes stands in the way of others")
        deaf.settimeout(60)
        received = 0
        with suppress(ConnectionError):
            while octets := deaf.recv(1 << 20):
                received += len(octets)
    assert received < 16_000_000
