"""mitmproxy is bounded, once."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.extensions.bounds import (
    bounded_dns,
    bounded_http,
    bounded_names,
    bounded_quic,
    bounded_streams,
    bounded_websocket,
    framed_http1,
    printable_log,
)
from hushlist.extensions.bounds.bounded_input import bound_input
from hushlist.extensions.bounds.printable_log import LONGEST_LOGGED
from hushlist.proxy.addon import Hushlist
from support.mitmproxied import mitmproxied


def test_the_addon_sets_the_bounds_as_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have set them in this process."""
    times = list[int]()
    monkeypatch.setattr("hushlist.proxy.addon.bound_input", lambda: times.append(1))
    with mitmproxied(Hushlist()):
        assert times == [1]


def test_the_bounds_are_those_that_were_measured() -> None:
    """Each lets what real peers send pass, and keeps a hostile one from taking the memory or the time of all."""
    assert {name: value for room in _ROOMS for name, value in vars(room).items() if name.startswith(_BOUNDS)} == {
        "LONGEST_DNS_NAME": 255,
        "MOST_OF_NAMES": 64 * 1024,
        "MOST_QUESTIONS": 1024,
        "LONGEST_WAIT": 8.0,
        "MOST_PORTS": 16 * 1024,
        "LONGEST_PAUSE": 60.0,
        "MOST_WAITING": 256 * 1024,
        "MOST_FOLDS": 64,
        "LARGEST_TABLE": 4096,
        "LONGEST_HELLO": 16 * 1024,
        "LONGEST_HEADERS": 64 * 1024,
        "MOST_AHEAD": 16 * 1024 * 1024,
        "MOST_STREAMS": 128,
        "MOST_PIECES": 1024,
        "MOST_ACKNOWLEDGED": 64,
        "LONGEST_MESSAGE": 16 * 1024 * 1024,
        "MOST_MESSAGES": 100,
        "LONGEST_WHOLE_BODY": 1024 * 1024,
        "LONGEST_LOGGED": 1000,
    }


_ROOMS = (
    bounded_dns,
    bounded_http,
    bounded_names,
    bounded_quic,
    bounded_streams,
    bounded_websocket,
    printable_log,
    framed_http1,
)
_BOUNDS = ("MOST_", "LONGEST_", "LARGEST_")


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
