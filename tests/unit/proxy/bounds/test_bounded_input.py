"""mitmproxy is bounded, once."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.printable_log import LONGEST_LOGGED
from support.mitmproxied import mitmproxied


def test_the_addon_sets_the_bounds_as_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have set them in this process."""
    times = list[int]()
    monkeypatch.setattr("hushlist.proxy.addon.bound_input", lambda: times.append(1))
    with mitmproxied(Hushlist()):
        assert times == [1]


def test_a_message_about_a_connection_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    bound_input()
    handler: Any = SimpleNamespace(client=SimpleNamespace(peername=("192.0.2.7", 1)))
    with caplog.at_level(logging.INFO):
        ConnectionHandler.log(handler, "Bad HTTP request line: " + r"\x01" * (1 << 18))
        ConnectionHandler.log(handler, "client connect")
    long, short = (record.getMessage() for record in caplog.records)
    assert short == "client connect"
    assert len(long) < LONGEST_LOGGED + 50
    assert long.startswith("Bad HTTP request line: ")
    assert long.endswith("... (1,048,599 characters)")
