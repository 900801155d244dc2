"""Addons without a hook are skipped; for the others, all is as mitmproxy does it; the filter is asked always."""

import asyncio
import logging
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.addonmanager import AddonManager
from mitmproxy.command import CommandManager
from mitmproxy.exceptions import AddonHalt
from mitmproxy.hooks import RunningHook
from mitmproxy.net.dns.response_codes import SERVFAIL
from mitmproxy.options import Options
from mitmproxy.proxy.layers.dns import DnsRequestHook
from mitmproxy.proxy.layers.http import HttpConnectHook, HttpRequestHeadersHook, HttpRequestHook
from mitmproxy.proxy.layers.tcp import TcpStartHook
from mitmproxy.proxy.layers.udp import UdpMessageHook
from mitmproxy.proxy.layers.websocket import WebsocketMessageHook
from mitmproxy.proxy.server_hooks import (
    ClientConnectedHook,
    ClientDisconnectedHook,
    ServerConnectHook,
    ServerConnectionHookData,
)
from mitmproxy.test import tflow

from hushlist.proxy.hook_calls import ask_the_filter, filter_is_gone

HOOKS = ("none", "returns", "waits", "fails", "halts", "is no function", "is of another name", "cannot be told")
_WHOLE = st.sampled_from([hook for hook in HOOKS if hook not in ("fails", "is no function", "cannot be told")])
CHAINS = st.recursive(
    st.tuples(_WHOLE, st.just([])),
    lambda inner: st.tuples(_WHOLE, st.lists(inner, max_size=3)),
    max_leaves=8,
)


class Untold(SimpleNamespace):
    @property
    def request(self) -> None:
        raise ValueError("of the property")


def _addon(hook: str, inner: list, called: list[int]) -> SimpleNamespace:
    kind = Untold if hook == "cannot be told" else SimpleNamespace
    own = kind(**{"addons": [_addon(*one, called) for one in inner]} if inner else {})
    number = id(own)

    def request(_: http.HTTPFlow) -> None:
        called.append(number)
        if hook == "fails":
            raise ValueError("of the addon")
        if hook == "halts":
            raise AddonHalt

    async def waiting(_: http.HTTPFlow) -> None:
        await asyncio.sleep(0)
        called.append(number)

    if hook in ("returns", "fails", "halts"):
        own.request = request
    elif hook == "waits":
        own.request = waiting
    elif hook == "is no function":
        own.request = 7
    elif hook == "is of another name":
        own.response = request
    return own


def _addons(chain: list, called: list[int]) -> AddonManager:
    addons = AddonManager(SimpleNamespace(options=Options()))
    addons.chain = [_addon(*one, called) for one in chain]
    return addons


@pytest.mark.slow
@given(st.lists(CHAINS, max_size=6))
def test_the_same_addons_are_called_in_the_same_order_where_none_fails(chain: list) -> None:
    called: list[int] = []
    addons, event = _addons(chain, called), HttpRequestHook(tflow.tflow())
    asyncio.run(addons.trigger_event(event))
    expected = called.copy()
    called.clear()
    ask_the_filter(addons, SimpleNamespace())
    asyncio.run(addons.trigger_event(event))
    assert called == expected


def test_every_change_of_the_addons_is_noticed() -> None:
    """One is added, removed, gets a hook, another, loses it; by itself, its class, what is within it, or its script."""
    called: list[str] = []

    def hook(name: str) -> Callable[[http.HTTPFlow], None]:
        return lambda _: called.append(name)

    def now() -> str:
        called.clear()
        asyncio.run(addons.handle_lifecycle(HttpRequestHook(tflow.tflow())))
        return " ".join(called)

    kind, script = type("Addon", (), {}), ModuleType("script")
    first, second, nest = kind(), SimpleNamespace(name="second"), SimpleNamespace(name="nest")
    addons = AddonManager(SimpleNamespace(options=Options(), commands=CommandManager(None)))
    addons.master.commands.collect_commands = lambda _: None
    addons.add(first)
    ask_the_filter(addons, SimpleNamespace())
    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: None, ""),
        (lambda: setattr(first, "request", hook("first")), "first"),
        (lambda: setattr(first, "request", hook("other")), "other"),
        (lambda: addons.add(second), "other"),
        (lambda: setattr(second, "update", hook("update")), "other update"),
        (lambda: setattr(second, "request", hook("second")), "other second update"),
        (lambda: delattr(first, "request"), "second update"),
        (lambda: setattr(kind, "request", lambda _, __: called.append("class")), "class second update"),
        (lambda: delattr(kind, "request"), "second update"),
        (lambda: addons.add(nest), "second update"),
        (lambda: setattr(nest, "addons", [script]), "second update"),
        (lambda: setattr(script, "request", hook("script")), "second script update"),
        (lambda: setattr(script, "addons", [SimpleNamespace(request=hook("inner"))]), "second script inner update"),
        (lambda: setattr(script, "__getattr__", {"request": hook("made")}.get), "second script inner update"),
        (lambda: delattr(script, "request"), "second made inner update"),
        (lambda: nest.addons.append(SimpleNamespace(request=hook("more"))), "second made inner more update"),
        (lambda: setattr(nest, "addons", [ModuleType("script")]), "second update"),
        (lambda: addons.remove(second), ""),
        (lambda: setattr(nest, "request", hook("nest")), "nest"),
        (addons.clear, ""),
    ]
    for change, expected in steps:
        change()
        assert now() == expected


def test_a_module_that_is_called_as_a_hook_is_none(caplog: pytest.LogCaptureFixture) -> None:
    addons = _addons([], [])
    addons.chain = [SimpleNamespace(request=ModuleType("request"))]
    ask_the_filter(addons, SimpleNamespace())
    asyncio.run(addons.trigger_event(HttpRequestHook(tflow.tflow())))
    assert caplog.text == ""


def test_a_failure_is_logged_and_the_next_addon_is_called(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []
    addons = _addons([(hook, []) for hook in ("none", "fails", "none", "returns")], called)
    ask_the_filter(addons, SimpleNamespace())
    with caplog.at_level(logging.ERROR):
        asyncio.run(addons.trigger_event(HttpRequestHook(tflow.tflow())))
    assert called == [*map(id, addons.chain[1::2])]
    assert "of the addon" in caplog.text


class Refusing:
    """In place of the filter."""

    def __init__(self) -> None:
        self.questions = 0

    def request(self, flow: http.HTTPFlow) -> None:
        self.questions += 1
        flow.response = http.Response.make(403)


@pytest.mark.parametrize(
    "before",
    ["none", "fails", "halts", "is no function", "cannot be told"],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_the_filter_is_asked_once_whatever_an_addon_before_it_does(before: str, is_nested: bool) -> None:
    filter_, flow = Refusing(), tflow.tflow()
    addons = _addons([(before, [])], [])
    addons.chain = [*addons.chain, filter_]
    if is_nested:
        addons.chain = [SimpleNamespace(addons=addons.chain)]
    ask_the_filter(addons, filter_)
    asyncio.run(addons.trigger_event(HttpRequestHook(flow)))
    assert filter_.questions == 1
    assert flow.response is not None


@pytest.mark.parametrize("chain", [[], [SimpleNamespace(addons=[])]])
def test_the_filter_is_asked_although_it_is_in_no_chain(chain: list) -> None:
    filter_, flow, addons = Refusing(), tflow.tflow(), _addons([], [])
    addons.chain = chain
    ask_the_filter(addons, filter_)
    asyncio.run(addons.trigger_event(HttpRequestHook(flow)))
    assert filter_.questions == 1


def test_a_filter_that_was_taken_out_leaves_nothing_that_passes() -> None:
    addons = _addons([("returns", [])], [])
    filter_ = Refusing()
    ask_the_filter(addons, filter_)
    assert [filter_is_gone(addons, filter_) for _ in range(2)] == [True, False]
    answered, recorded = tflow.tflow(), tflow.tflow()
    answered.response, recorded.live = http.Response.make(204), False
    client, server = tflow.tclient_conn(), tflow.tserver_conn()
    question, raw, message = tflow.tdnsflow(), tflow.ttcpflow(), tflow.twebsocketflow()
    request, datagrams, tunnel = tflow.tflow(), tflow.tudpflow(), tflow.tflow()
    for event in (
        HttpRequestHeadersHook(request),
        HttpRequestHook(answered),
        HttpRequestHook(recorded),
        HttpConnectHook(tunnel),
        ClientConnectedHook(client),
        ServerConnectHook(ServerConnectionHookData(server, client)),
        DnsRequestHook(question),
        TcpStartHook(raw),
        UdpMessageHook(datagrams),
        WebsocketMessageHook(message),
        ClientDisconnectedHook(client),
        RunningHook(),
    ):
        asyncio.run(addons.trigger_event(event))
    assert [own.response and own.response.status_code for own in (request, tunnel)] == [503, 503]
    assert answered.response.status_code == 204
    assert recorded.response is None
    assert question.response is not None
    assert question.response.response_code == SERVFAIL
    assert all(own.error for own in (client, server, raw, datagrams, message))
