"""Addons without a hook are skipped; for the others, all is as mitmproxy does it."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.addonmanager import AddonManager
from mitmproxy.exceptions import AddonHalt
from mitmproxy.options import Options
from mitmproxy.proxy.layers.http import HttpRequestHook
from mitmproxy.test import tflow

from hushlist.proxy.hook_calls import ask_every_addon, skip_addons_without_hook

HOOKS = ("none", "returns", "waits", "fails", "halts", "is no function", "is of another name", "cannot be told")
CHAINS = st.recursive(
    st.tuples(st.sampled_from(HOOKS), st.just([])),
    lambda inner: st.tuples(st.sampled_from(HOOKS), st.lists(inner, max_size=3)),
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
def test_the_same_addons_are_called_in_the_same_order(chain: list) -> None:
    called: list[int] = []
    addons, event = _addons(chain, called), HttpRequestHook(tflow.tflow())
    asyncio.run(addons.trigger_event(event))
    expected = called.copy()
    called.clear()
    skip_addons_without_hook(addons)
    asyncio.run(addons.trigger_event(event))
    assert called == expected


def test_others_cost_nothing_and_a_failure_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    addons = _addons([(hook, []) for hook in ("none", "fails", "none", "returns")], called)
    asked: list[object] = []
    invoke = addons.invoke_addon
    monkeypatch.setattr(addons, "invoke_addon", lambda addon, event: asked.append(addon) or invoke(addon, event))
    skip_addons_without_hook(addons)
    with caplog.at_level(logging.ERROR):
        asyncio.run(addons.trigger_event(HttpRequestHook(tflow.tflow())))
    with_hook = addons.chain[1::2]
    assert asked == with_hook
    assert called == [*map(id, with_hook)]
    assert "of the addon" in caplog.text
    ask_every_addon(addons)
    asked.clear()
    asyncio.run(addons.trigger_event(HttpRequestHook(tflow.tflow())))
    assert asked == addons.chain
