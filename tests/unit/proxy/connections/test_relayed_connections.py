"""Connections that are relayed, asked again in mitmproxy's own test context."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import connection, http
from mitmproxy.test import tflow
from mitmproxy.websocket import WebSocketData

from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import Client, GroupSettings
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.core.url.request import Request
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.relayed_connections import AT_ONCE
from support.mitmproxied import ProxyConnections, mitmproxied
from unit.proxy.connections.test_tunnels import hello_to


class Proxied(ProxyConnections):
    """An addon, and the connections of its proxy."""

    def __init__(self, hushlist: Hushlist, policy: Path) -> None:
        super().__init__()
        self.hushlist, self.policy = hushlist, policy

    def load(self, *rules: str, **settings: object) -> None:
        (self.policy.parent / "rules.yaml").write_text(json.dumps({"rules": rules}))
        layer = {"name": "own", "lists": ["rules.yaml"]}
        self.policy.write_text(json.dumps({"layers": [layer], "log": {"folder": "log"}, **settings}))
        self.hushlist.policy_watch.load(self.policy)

    def ask(self, url: str) -> http.HTTPFlow:
        """A request on a decrypted connection of its own, which was answered by a head if it was let through."""
        flow = tflow.tflow(req=http.Request.make("GET", url), client_conn=self.client())
        self.hushlist.requestheaders(flow)
        if flow.response is None:
            flow.response = http.Response.make()
            flow.response.timestamp_end = None
        return flow

    def open(self, host: str, why: str | None = None, *, protocol: Any = "tcp") -> connection.Client:
        """A relayed connection that would now be decrypted for a reason."""
        client, judgement = self.client(protocol), self.judged(host)
        self.hushlist._relayed.note(
            client,
            judgement.request,
            judgement,
            lambda *_: None if why is None else f"it would be decrypted now: {why}",
        )
        return client

    def judged(self, host: str) -> Judgement:
        request = Request(b"https", (host.encode(),), 443, b"/")
        judgement = self.hushlist.runtime.judge(request, Client("127.0.0.1"), is_connection=True)
        return judgement or Judgement(request, Client(), GroupSettings(), Engine.decide_host(self.engine, request), 0)

    @property
    def engine(self) -> Engine:
        assert self.hushlist.runtime.engine is not None
        return self.hushlist.runtime.engine

    def ended(self, *opened: connection.Client | http.HTTPFlow) -> list[bool]:
        asyncio.run(self.hushlist._relayed.ask_again())
        clients = [one.client_conn if isinstance(one, http.HTTPFlow) else one for one in opened]
        return [bool(self.handlers[client.id].closed) for client in clients]


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxied]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hushlist = Hushlist()
    (tmp_path / "policy.yaml").write_text("layers: []\n")
    with mitmproxied(hushlist, tmp_path / "policy.yaml"):
        yield Proxied(hushlist, tmp_path / "policy.yaml")


def test_what_is_blocked_or_to_be_decrypted_now_ends_once(proxied: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    good, bad, needed = proxied.open("good.example"), proxied.open("bad.example"), proxied.open("read.example", "why")
    proxied.load("bad.example")
    assert proxied.ended(good, bad, needed) == [False, True, True]
    proxied.load("bad.example", "other.example")
    proxied.ended()
    told = [own for own in caplog.messages if "connection" in own]
    assert [own.partition(": ")[2].partition(" (")[0] for own in told] == [
        "no connection for 127.0.0.1 to https://bad.example/: bad.example/ by rules",
        "ended the connection of 127.0.0.1 to read.example: it would be decrypted now: why",
    ]
    assert proxied.handlers[bad.id].closed == [bad]
    assert proxied.hushlist.runtime.statistics.total == 1


@pytest.mark.parametrize(
    "settings", [{"relayed": "keep"}, {"mode": "tag"}, {"mode": "off"}, {"groups": [{"ports": [8080], "mode": "tag"}]}]
)
def test_what_the_policy_does_not_end_goes_on(proxied: Proxied, settings: dict[str, Any]) -> None:
    clients = proxied.open("bad.example"), proxied.open("read.example", "why")
    groups = [{"name": "g", **own} for own in settings.pop("groups", [])]
    proxied.load("bad.example", groups=groups, **settings)
    assert proxied.ended(*clients) == [False, False]


def test_what_is_passed_through_goes_on_for_as_long_as_the_policy_passes_it(proxied: Proxied) -> None:
    proxied.load(**{"pass-through": {"hosts": ["bank.example"]}})
    data = hello_to(("bank.example", 443), "bank.example")
    data.context.client = proxied.client()
    proxied.hushlist.tls_clienthello(data)
    assert data.ignore_connection
    for passed, is_ended in (("bank.example", False), ("other.example", True)):
        proxied.load("blocked.example", **{"pass-through": {"hosts": [passed]}})
        assert proxied.ended(data.context.client) == [is_ended]


def test_what_an_unblock_has_let_go_on_ends_with_the_unblock(proxied: Proxied) -> None:
    proxied.load()
    client, flow = proxied.open("bad.example"), proxied.ask("http://bad.example/")
    overrides = overrides_of(proxied.hushlist.runtime)
    assert overrides is not None
    grant = overrides.grant("host", "bad.example", 600, how="command line", by="me")
    proxied.load("bad.example")
    assert proxied.ended(client, flow) == [False, False]
    overrides.revoke(grant.id, by="me")
    assert proxied.ended(client, flow) == [True, True]


@pytest.mark.parametrize("by_option", [False, True])
def test_what_was_begun_while_the_filter_was_off_ends_where_it_is_stopped(proxied: Proxied, by_option: bool) -> None:
    proxied.load("bad.example", mode="off")
    proxied.hushlist.runtime.mode = "off" if by_option else "block"
    flows = proxied.ask("http://bad.example/"), proxied.ask("http://good.example/")
    proxied.load("bad.example")
    assert proxied.ended(*flows) == [not by_option, False]
    proxied.hushlist.runtime.mode = "block"
    assert proxied.ended(*flows) == [True, False]


def test_nothing_is_asked_again_while_nothing_changes(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    proxied.load("bad.example")
    client = proxied.open("good.example")
    assert proxied.ended(client) == [False]
    monkeypatch.setattr(Engine, "decide_host", broken)
    assert proxied.ended(client) == [False]
    proxied.hushlist.runtime.mode = "tag"
    proxied.ended(client)
    proxied.hushlist.runtime.mode = "block"
    assert proxied.ended(client) == [True]


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize("passes", [False, True])
def test_where_the_filter_fails_the_policy_says_what_becomes_of_it(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch, passes: bool
) -> None:
    client = proxied.open("good.example")
    proxied.load("bad.example")
    proxied.hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause) if passes else frozenset())
    monkeypatch.setattr(Engine, "decide_host", broken)
    assert proxied.ended(client) == [not passes]


def test_a_client_s_datagrams_go_nowhere_since_later_ones_would_begin_anew(proxied: Proxied) -> None:
    client = proxied.open("bad.example", protocol="udp")
    handler = proxied.handlers[client.id]
    proxied.load("bad.example")
    assert proxied.ended(client) == [True]
    assert handler.closed == [handler.server]
    assert list(handler.layer.handle_event(object())) == []


def test_what_could_not_be_ended_is_ended_later_and_others_at_once(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = proxied.open("bad.example"), proxied.open("bad.example")
    proxied.load("bad.example")
    with monkeypatch.context() as patch:
        patch.setattr(proxied.handlers[clients[0].id], "close_connection", broken)
        assert proxied.ended(*clients) == [False, True]
    assert proxied.ended(*clients) == [True, True]


def test_many_are_asked_again_while_others_are_served(proxied: Proxied) -> None:
    clients = [proxied.open("bad.example") for _ in range(5 * AT_ONCE)]
    proxied.load("bad.example")
    turns = 0

    async def serve() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def ask_again() -> None:
        other = asyncio.create_task(serve())
        await proxied.hushlist._relayed.ask_again()
        other.cancel()

    asyncio.run(ask_again())
    assert turns == 5
    assert all(proxied.handlers[client.id].closed for client in clients)


def test_it_looks_at_the_policy_again_and_again_even_if_it_fails(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.proxy.connections.relayed_connections.INTERVAL", 0.001)
    client = proxied.open("bad.example")
    proxied.load("bad.example")

    async def watch() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "state", broken)
            proxied.hushlist._relayed.run()
            await asyncio.sleep(0.05)
        while not proxied.handlers[client.id].closed:
            await asyncio.sleep(0.001)
        proxied.hushlist._relayed.close()

    asyncio.run(asyncio.wait_for(watch(), 20))


# -- requests on decrypted connections ---------------------------------------------------------------------------------


def websocket_of(proxied: Proxied, url: str) -> http.HTTPFlow:
    flow = proxied.ask(url)
    assert flow.response is not None
    flow.response.timestamp_end, flow.websocket = 1.0, WebSocketData()
    return flow


def test_a_websocket_or_a_download_that_is_blocked_now_ends(proxied: Proxied) -> None:
    proxied.load("blocked.example")
    good, chat = (websocket_of(proxied, f"https://path.example/{path}/") for path in ("good", "chat"))
    download, upload, blocked = (
        proxied.ask(f"http://{host}/chat/") for host in ("path.example", "www.path.example", "blocked.example")
    )
    upload.response = None
    proxied.load("path.example/chat/", "blocked.example")
    assert proxied.ended(good, chat, download, upload, blocked) == [False, True, True, True, False]
