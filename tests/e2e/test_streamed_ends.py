"""A body that is streamed ends when something begins that forbids it, in either direction."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.plain_origin import PlainOrigin
from e2e.policies import replace, write_list
from e2e.proxy import PATIENCE, Proxy, mitmdump
from e2e.test_quotas import GAMES, NOON, at
from e2e.test_streaming import read_head
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.overrides import Overrides

_PART = b"4\r\npart\r\n"
_PAUSE = 0.02


class EndlessOrigin:
    """Sends bodies without an end, and reads them; it notes whose has ended."""

    def __init__(self) -> None:
        self.ended = {method: threading.Event() for method in ("GET", "POST")}

    def serve(self, connection: socket.socket) -> None:
        method = read_head(connection).split(b" ")[0].decode()
        with suppress(OSError):
            if method == "GET":
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    connection.sendall(_PART)
                    time.sleep(_PAUSE)
            while connection.recv(1 << 16):
                pass
        self.ended[method].set()


def forbid_by_rule(_: Proxy, folder: Path) -> None:
    write_list(folder / "rules.yaml", "game.test", "ads.test")


def forbid_by_schedule(proxy: Proxy, _: Path) -> None:
    at(proxy, hours=9)


def forbid_by_quota(proxy: Proxy, _: Path) -> None:
    at(proxy, minutes=1)


def forbid_by_administrator(proxy: Proxy, _: Path) -> None:
    with Overrides(default_path(), NOON.timestamp) as overrides:
        overrides.block("host", "game.test", None, by="me")
    at(proxy, seconds=30)  # a proxy whose clock stands still does not look again


@pytest.fixture(params=[forbid_by_rule, forbid_by_schedule, forbid_by_quota, forbid_by_administrator])
def forbid(request: pytest.FixtureRequest) -> Callable[[Proxy, Path], None]:
    """Forbids what is under way to game.test."""
    begin: Callable[[Proxy, Path], None] = request.param
    return begin


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy by which games are let through for a minute a day, and not at all at night."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "own"
    folder.mkdir()
    write_list(folder / "rules.yaml", "ads.test")
    write_list(folder / "games.yaml", "game.test", category=GAMES, action="tag")
    write_list(folder / "night.yaml", "game.test")
    policy: dict[str, Any] = {
        "timezone": "UTC",
        "schedules": {"night": {"times": "21:00-06:00"}},
        "quotas": {"hrn://c.example/fun": {"minutes": 1, "reset": "04:00"}},
        "unblock": "on",
        "layers": [
            {"name": "rules", "lists": ["rules.yaml", "games.yaml"]},
            {"name": "night", "lists": ["night.yaml"], "during": "night"},
        ],
    }
    replace(folder / "policy.yaml", yaml.safe_dump(policy))
    return folder


@pytest.fixture
def origin_() -> EndlessOrigin:
    return EndlessOrigin()


@pytest.fixture
def proxy_(tmp_path: Path, folder: Path, origin_: EndlessOrigin) -> Iterator[Proxy]:
    (tmp_path / "mitmdump").mkdir()
    with (
        PlainOrigin(origin_.serve) as origin,
        mitmdump(tmp_path / "mitmdump", origin, policy=folder / "policy.yaml", scripts=["clock.py"]) as proxy,
    ):
        at(proxy)
        yield proxy


def test_a_download_and_an_upload_that_are_streamed_end(
    proxy_: Proxy, folder: Path, origin_: EndlessOrigin, forbid: Callable[[Proxy, Path], None]
) -> None:
    with proxy_.connect() as down, proxy_.connect() as up:
        down.sendall(b"GET http://game.test/down HTTP/1.1\r\nHost: game.test\r\n\r\n")
        assert read_head(down).startswith(b"HTTP/1.1 200 ")
        up.sendall(b"POST http://game.test/up HTTP/1.1\r\nHost: game.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        reading = threading.Thread(target=_read_on, args=(down,), daemon=True)
        reading.start()
        _write_on(up, seconds=0.5)
        assert not any(ended.is_set() for ended in origin_.ended.values())
        forbid(proxy_, folder)
        _write_on(up, seconds=PATIENCE)
        reading.join(PATIENCE)
        assert not reading.is_alive()
        assert all(ended.wait(PATIENCE) for ended in origin_.ended.values())
    for path in ("down", "up"):
        proxy_.log.wait_for(f"no connection for .* to http://game.test/{path}")


def _read_on(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


def _write_on(connection: socket.socket, seconds: float) -> None:
    """Send parts of a body for a while, or until the connection ends."""
    end = time.monotonic() + seconds
    with suppress(OSError):
        while time.monotonic() < end:
            connection.sendall(_PART)
            time.sleep(_PAUSE)
