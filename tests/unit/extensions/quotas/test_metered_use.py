"""What goes on counts in each minute in which octets flow, and ends when its minutes are used up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import connection, http
from mitmproxy.test import tflow

from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request
from hushlist.extensions.quotas.metered_use import MeteredUse
from hushlist.extensions.quotas.quota_meter import QuotaMeter
from hushlist.proxy.addon import Hushlist
from support.mitmproxied import ProxyConnections, mitmproxied
from support.parts import part_of

GAMES = "hrn://c.example/games"
NOON = 1_800_000_000.0


class Metered(ProxyConnections):
    """An addon with a quota of two minutes, a clock, and the connections of its proxy."""

    def __init__(self, hushlist: Hushlist, policy: Path) -> None:
        super().__init__()
        self.hushlist, self.policy, self.now = hushlist, policy, NOON
        hushlist.runtime.clock = lambda: self.now
        self.load(quotas={GAMES: 2})

    def load(self, **settings: object) -> None:
        rules = [{"expression": "game.example", "action": "tag", "category": GAMES}]
        (self.policy.parent / "rules.yaml").write_text(json.dumps({"rules": rules}))
        layer = {"name": "own", "lists": ["rules.yaml"]}
        self.policy.write_text(json.dumps({"layers": [layer], **settings}))
        self.hushlist.policy_watch.load(self.policy)

    def relay(self, host: str = "game.example", protocol: Any = "tcp") -> connection.Client:
        client = self.client(protocol)
        request = Request(b"https", (host.encode(),), 443, b"/")
        judgement = self.hushlist.runtime.judge(request, Client("127.0.0.1"), is_connection=True)
        assert judgement is not None
        self.hushlist._relayed.note(client, judgement.request, judgement)
        return client

    def ask(self, url: str = "http://game.example/", *, answer: str | None = None, **headers: str) -> http.HTTPFlow:
        """A flow that has gone as far as its answer's head."""
        flow = tflow.tflow(client_conn=self.client(), req=http.Request.make("GET", url))
        flow.client_conn.tls = flow.request.scheme == "https"
        flow.request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        self.kept.append(flow)
        self.hushlist.requestheaders(flow)
        self.hushlist.request(flow)
        if flow.response is None:
            flow.response = http.Response.make(200, b"", {} if answer is None else {"Content-Type": answer})
            flow.response.timestamp_end = None
            self.hushlist.responseheaders(flow)
        return flow

    def flow_on(self, *clients: connection.Client) -> None:
        for client in clients:
            self.handlers[client.id].timeout_watchdog.last_activity += 1

    def look(self, minutes: float = 0) -> None:
        self.now += 60 * minutes
        asyncio.run(self.hushlist.parts.of(MeteredUse).look())

    def is_closed(self, client: connection.Client) -> bool:
        return bool(self.handlers[client.id].closed)

    @property
    def used(self) -> int:
        (use,) = self.meter.uses(self.hushlist.runtime.settings(Client()).of("quotas"), Client("127.0.0.1"), "default")
        return use.used

    @property
    def meter(self) -> QuotaMeter:
        meter = part_of(self.hushlist.runtime, MeteredUse).meter
        assert meter is not None
        return meter


@pytest.fixture
def metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metered]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hushlist = Hushlist()
    (tmp_path / "policy.yaml").write_text("layers: []\n")
    with mitmproxied(hushlist, tmp_path / "policy.yaml"):
        yield Metered(hushlist, tmp_path / "policy.yaml")


def test_a_relayed_connection_counts_when_it_begins_and_while_octets_flow(metered: Metered) -> None:
    client, other = metered.relay(), metered.relay("other.example")
    assert metered.used == 1
    metered.flow_on(client, other)
    metered.look()
    metered.look(1)  # nothing since
    assert metered.used == 1
    metered.flow_on(other)
    metered.look()
    assert metered.used == 1
    metered.flow_on(client)
    metered.look()
    assert metered.used == 2
    metered.flow_on(client)
    metered.look(0.99)
    assert not metered.is_closed(client)
    metered.flow_on(client)
    metered.look(0.01)
    assert [metered.is_closed(own) for own in (client, other)] == [True, False]
    assert metered.hushlist.runtime.statistics.total == 1


@pytest.mark.parametrize("settings", [{"relayed": "keep"}, {"mode": "tag"}])
def test_what_the_policy_keeps_goes_on_and_counts(metered: Metered, settings: dict[str, Any]) -> None:
    metered.load(quotas={GAMES: 1}, **settings)
    client = metered.relay()
    for _ in range(2):
        metered.flow_on(client)
        metered.look(1)
    assert not metered.is_closed(client)


def test_a_connection_gets_its_quota_when_the_policy_does(metered: Metered) -> None:
    metered.load()
    client = metered.relay()
    metered.load(quotas={GAMES: 1})
    asyncio.run(metered.hushlist._relayed.ask_again())
    metered.flow_on(client)
    metered.look(1)
    assert metered.is_closed(client)


def test_a_connection_that_is_asked_again_counts_no_minute_in_which_nothing_flows(metered: Metered) -> None:
    metered.load(quotas={GAMES: 9})
    metered.relay()
    metered.now += 60
    metered.load(quotas={GAMES: 9}, default="pass")
    asyncio.run(metered.hushlist._relayed.ask_again())
    assert metered.used == 1


def test_a_connection_keeps_the_names_that_were_known_first(metered: Metered) -> None:
    client = metered.relay()
    request = Request(b"https", (b"other.example",), 443, b"/")
    judgement = metered.hushlist.runtime.judge(request, Client("127.0.0.1"), is_connection=True)
    assert judgement is not None
    metered.hushlist._relayed.note(client, judgement.request, judgement)
    for _ in range(2):
        metered.flow_on(client)
        metered.look(1)
    assert metered.is_closed(client)


def test_a_download_goes_on_when_a_page_would_warn_and_the_next_page_warns(metered: Metered) -> None:
    metered.load(quotas={GAMES: 6})
    document = {"Sec_Fetch_Dest": "document", "Sec_Fetch_Mode": "navigate"}
    flow = metered.ask(answer="video/mp4", **document)
    metered.flow_on(flow.client_conn)
    metered.look(1)
    assert (metered.is_closed(flow.client_conn), metered.used) == (False, 2)
    warned = metered.ask(**document).response
    assert warned is not None
    assert warned.status_code == 403


def test_what_a_client_only_reads_on_counts_and_ends(metered: Metered) -> None:
    client = metered.relay()
    client.state = connection.ConnectionState.CAN_WRITE
    for used in (2, 2):
        metered.flow_on(client)
        metered.look(1)
        assert metered.used == used
    assert metered.is_closed(client)


def test_a_datagram_connection_ends_too(metered: Metered) -> None:
    client = metered.relay(protocol="udp")
    metered.look(1)
    metered.meter.count_for(metered.hushlist.runtime.settings(Client()).of("quotas"), Client("127.0.0.1"), "default")
    metered.flow_on(client)
    metered.look(1)
    assert metered.is_closed(client)


def test_a_download_counts_while_it_lasts_and_ends(metered: Metered) -> None:
    flow = metered.ask(answer="video/mp4")
    for used in (2, 2):
        metered.flow_on(flow.client_conn)
        metered.look(1)
        assert metered.used == used
    assert metered.is_closed(flow.client_conn)


def test_what_is_over_counts_no_more(metered: Metered) -> None:
    flow = metered.ask(answer="text/html")
    assert flow.response is not None
    flow.response.timestamp_end = metered.now
    metered.flow_on(flow.client_conn)
    metered.look(1)
    assert metered.used == 1


@pytest.mark.parametrize(
    ("answer", "used"), [("image/png", 0), ("text/html", 1), ("video/mp4", 1), (None, 1), ("application/json", 0)]
)
def test_a_request_of_the_background_counts_by_its_answer(metered: Metered, answer: str | None, used: int) -> None:
    metered.ask(answer=answer, Accept="image/webp", Referer="http://news.example/")
    assert metered.used == used


def test_what_lasts_longer_than_its_minute_is_no_background(metered: Metered) -> None:
    flow = metered.ask(answer="image/png", Accept="image/webp", Referer="http://news.example/")
    metered.flow_on(flow.client_conn)
    metered.look(1)
    assert metered.used == 1


def test_what_is_refused_does_not_count(metered: Metered) -> None:
    metered.ask()
    metered.now += 60
    metered.ask()
    metered.now += 60
    flow = metered.ask()
    assert flow.response is not None
    assert (flow.response.status_code, metered.used) == (403, 2)


def test_a_failure_ends_what_goes_on(metered: Metered, monkeypatch: pytest.MonkeyPatch) -> None:
    client = metered.relay()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(metered.hushlist.runtime, "judge", broken)
    metered.flow_on(client)
    metered.look(1)
    assert metered.is_closed(client)


def test_names_are_answered_without_quotas(metered: Metered) -> None:
    metered.load(quotas={GAMES: 1})
    metered.ask()
    metered.now += 60
    request = Request(b"dns", (b"game.example",), 53, b"/")
    judged = metered.hushlist.runtime.judge(request, Client("127.0.0.1"), is_lookup=True)
    assert judged is not None
    assert not judged.stops


def test_what_is_open_counts_once_by_a_quota_that_begins_later(metered: Metered) -> None:
    metered.load()
    flow = metered.ask(answer="text/event-stream")
    metered.load(quotas={GAMES: 2})
    for mode in ("block", "tag", "block"):  # each time, it is asked again
        metered.hushlist.runtime.mode = mode
        asyncio.run(metered.hushlist._relayed.ask_again())
    assert metered.used == 1
    metered.flow_on(flow.client_conn)
    metered.look(1)
    assert metered.used == 2
