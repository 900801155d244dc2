"""Hooks that wait for nobody are called between the events of a connection; the others in a task of their own."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mitmproxy import http
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.onboarding import APP_HOST, Onboarding
from mitmproxy.log import LegacyLogEvents
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import HttpRequestHook
from mitmproxy.test import taddons, tflow, tutils

from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.hook_calls import ask_the_filter
from hushlist.proxy.immediate_hooks import IN_A_ROW, OF_AN_EVENT, HookedLayer

DATA = events.DataReceived(tflow.tclient_conn(), b"x")
#: messages that an addon was told of
HEARD: list[str] = []


class Asking:
    """A layer that asks for one hook after the other, and says so behind the last."""

    context = None

    def __init__(self, number: int) -> None:
        self.left = number

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        assert isinstance(event, events.Start | events.DataReceived | events.HookCompleted)
        self.left -= 1
        yield HttpRequestHook(tflow.tflow()) if self.left >= 0 else commands.Log("the end")


def _first(*hooks: Callable[[http.HTTPFlow], Any], number: int = 1) -> tuple[HookedLayer, AddonManager]:
    addons: Any = AddonManager(SimpleNamespace(options=Options()))
    addons.chain = [SimpleNamespace(request=hook) for hook in hooks]
    ask_the_filter(addons, SimpleNamespace())
    return _hooked(Asking(number), addons), addons


def _hooked(first: Any, addons: AddonManager) -> HookedLayer:
    transports = {DATA.connection: SimpleNamespace(handler="a task")}
    handler: Any = SimpleNamespace(layer=first, master=SimpleNamespace(addons=addons), client=DATA.connection)
    handler.transports = transports
    handler.layer = HookedLayer(handler)
    return handler.layer  # type: ignore[no-any-return]


def _kinds(commands_: list[commands.Command]) -> list[str]:
    return [type(command).__name__ for command in commands_]


def test_a_hook_that_waits_for_nobody_needs_no_task() -> None:
    called: list[http.HTTPFlow] = []
    layer, _ = _first(called.append, number=2)
    assert _kinds(list(layer.handle_event(DATA))) == ["Log"]
    assert len(called) == 2


def test_at_the_begin_of_a_connection_hooks_have_tasks() -> None:
    """mitmproxy fails where it is to end a connection before it has read of it."""
    called: list[http.HTTPFlow] = []
    layer, _ = _first(called.append)
    layer._handler.transports[DATA.connection].handler = None
    assert _kinds(list(layer.handle_event(DATA))) == ["HttpRequestHook"]
    assert called == []


@pytest.mark.parametrize("number", [IN_A_ROW, IN_A_ROW + 1, 3 * IN_A_ROW])
def test_a_connection_calls_only_some_in_a_row(number: int) -> None:
    called: list[http.HTTPFlow] = []
    layer, _ = _first(called.append, number=number)
    left = list(layer.handle_event(DATA))
    assert len(called) == IN_A_ROW
    assert _kinds(left) == (["Log"] if number == IN_A_ROW else ["HttpRequestHook"])


def test_each_hook_behind_some_in_a_row_lets_others_have_their_turn() -> None:
    """Else whoever sends requests in a row would have as many in each turn, and everybody else one."""
    called: list[http.HTTPFlow] = []
    layer, _ = _first(called.append, number=3 * IN_A_ROW)
    (hook,) = list(layer.handle_event(DATA))
    for _ in range(3):
        assert isinstance(hook, HttpRequestHook)
        (hook,) = list(layer.handle_event(events.HookCompleted(hook)))
    assert len(called) == IN_A_ROW
    list(layer.handle_event(DATA))
    assert len(called) == 2 * IN_A_ROW


def test_nothing_goes_on_where_a_hook_has_ended_the_connection() -> None:
    """``end_connection`` puts a layer in its place that drops whatever comes, where it is one of datagrams."""
    layer, _ = _first(lambda _: setattr(layer._handler, "layer", None))
    assert list(layer.handle_event(DATA)) == []


def test_hooks_of_other_requests_are_called_where_a_layer_fails() -> None:
    class Failing(Asking):
        def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
            yield from super().handle_event(event)
            raise ValueError("it has a defect")

    _, addons = _first()
    handled = _hooked(Failing(1), addons).handle_event(DATA)
    assert isinstance(next(handled), HttpRequestHook)
    with pytest.raises(ValueError, match="defect"):
        next(handled)


def test_what_comes_while_hooks_have_tasks_is_counted() -> None:
    """So that no more is read than they take."""

    async def waits(_: http.HTTPFlow) -> None:
        await asyncio.sleep(0)

    layer, addons = _first(waits)
    (hook,) = list(layer.handle_event(DATA))
    assert isinstance(hook, HttpRequestHook)
    counted = layer.octets
    layer._first.left = 1  # type: ignore[attr-defined]
    (other,) = list(layer.handle_event(DATA))
    assert (counted, layer.octets) == (1 + OF_AN_EVENT, 2 + 2 * OF_AN_EVENT)
    for each in (hook, other):
        asyncio.run(addons.handle_lifecycle(each))
        list(layer.handle_event(events.HookCompleted(each)))
    assert layer.octets == 0


def test_without_a_filter_mitmproxy_calls_all() -> None:
    layer, addons = _first()
    vars(addons).pop("trigger_event")
    assert _kinds(list(layer.handle_event(DATA))) == ["HttpRequestHook"]


def test_what_a_hook_has_intercepted_waits() -> None:
    called: list[http.HTTPFlow] = []

    def intercept(flow: http.HTTPFlow) -> None:
        called.append(flow)
        flow.intercept()

    layer, addons = _first(intercept)
    (hook,) = list(layer.handle_event(DATA))
    assert isinstance(hook, HttpRequestHook)
    asyncio.run(addons.handle_lifecycle(hook))
    assert called == [hook.flow]


def test_what_waits_begins_in_the_task_that_ends_it() -> None:
    """Otherwise its timeouts would end the task of the client's connection."""
    called: list[str] = []

    async def waits(_: http.HTTPFlow) -> None:
        called.append("begun")
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    async def serve() -> None:
        layer, addons = _first(lambda _: called.append("first"), waits, lambda _: called.append("last"))
        (hook,) = list(layer.handle_event(DATA))
        assert called == ["first"]
        task = asyncio.create_task(addons.handle_lifecycle(hook))
        await asyncio.sleep(0.1)
        assert task.done()

    asyncio.run(serve())
    assert called == ["first", "begun", "last"]


@pytest.mark.parametrize(
    ("addon", "times"),
    [
        (SimpleNamespace(), 0),
        (SimpleNamespace(add_log=lambda entry: HEARD.append(entry.msg)), 1),
        (SimpleNamespace(addons=[SimpleNamespace(add_log=lambda entry: HEARD.append(entry.msg))]), 1),
    ],
)
def test_only_who_has_the_hook_of_messages_is_told_of_one(addon: SimpleNamespace, times: int) -> None:
    bound_input()
    HEARD.clear()

    async def log() -> None:
        addons: Any = AddonManager(SimpleNamespace(options=Options()))
        addons.chain = [addon]
        loop = asyncio.get_running_loop()
        events_ = LegacyLogEvents(cast("Any", SimpleNamespace(addons=addons, event_loop=loop)))
        events_.handle(logging.makeLogRecord({"msg": "a message", "levelno": logging.INFO}))
        await asyncio.sleep(0)

    asyncio.run(log())
    assert [text.partition("] ")[2] for text in HEARD] == ["a message"] * times


def test_other_hosts_than_mitmproxys_pages_wait_for_nobody() -> None:
    bound_input()
    onboarding, flow = Onboarding(), tflow.tflow(req=tutils.treq(host="a.example"))

    async def ask() -> None:
        with taddons.context(onboarding):
            assert onboarding.request(flow) is None
            flow.request.host = APP_HOST
            serving = onboarding.request(flow)
            assert serving is not None
            await serving

    asyncio.run(ask())
    assert flow.response is not None
    assert flow.response.status_code == 404  # it has no such page
