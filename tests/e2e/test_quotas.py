"""Quotas: a child browses, is warned, is stopped, and goes on after the reset; the count outlives the proxy."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import PATIENCE, Proxy
from e2e.test_relayed_connections import is_open, relayed

#: near the true time, since old minutes are forgotten
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
GAMES = "hrn://c.example/fun/games"
DOCUMENT = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
IMAGE = {"Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "cross-site", "Referer": "http://news.test/"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def policy_of(folder: Path, minutes: int = 2, **more: Any) -> Path:
    """Games for so many minutes a day, which begins at four."""
    folder.mkdir(exist_ok=True)
    write_list(folder / "games.yaml", "game.test", "play.test", category=GAMES, action="tag")
    quotas = {"hrn://c.example/fun": {"minutes": minutes, "reset": "04:00"}}
    return write_policy(folder, ["games.yaml"], quotas=quotas, unblock="on", log={"folder": "log"}, **more)


def at(proxy: Proxy, **later: float) -> None:
    """Set the clock to so much after noon."""
    moment = (NOON + timedelta(**later)).isoformat().replace("+", "%2B")
    assert proxy.get(f"http://clock.test/?at={moment}").status_code == 204


def status(proxy: Proxy, url: str = "http://game.test/", headers: dict[str, str] | None = None) -> int:
    return proxy.get(url, headers).status_code


def test_a_child_is_let_through_warned_and_stopped_until_the_reset(
    start: Callable[..., Proxy], tmp_path: Path, origin: Origin
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", 7), scripts=["clock.py"])
    for minute in (0, 1):
        at(proxy, minutes=minute)
        assert [status(proxy, headers=DOCUMENT), status(proxy)] == [200, 200]
    at(proxy, minutes=2)
    warned = proxy.get("http://game.test/", DOCUMENT | {"Accept-Language": "de"})
    assert (warned.status_code, "Verbleibende Zeit für solche Seiten: 5 Min." in warned.text) == (403, True)
    assert [status(proxy, headers=DOCUMENT), status(proxy, "http://play.test/", DOCUMENT)] == [200, 200]
    for minute in range(3, 7):
        at(proxy, minutes=minute)
        assert status(proxy, headers=DOCUMENT) == 200
    at(proxy, minutes=7)
    with origin.watch() as arrived:
        stopped = proxy.get("http://www.game.test/x", DOCUMENT)
        assert [status(proxy, "http://play.test/a.png", IMAGE), status(proxy, "https://game.test/")] == [403, 403]
        assert status(proxy, "http://other.test/") == 200
    assert [seen.host for seen in arrived.requests] == ["other.test"]
    assert "The time for such pages is used up (7 min)." in stopped.text
    tomorrow = f'datetime="{(NOON + timedelta(hours=16)).isoformat(timespec="minutes")}"'
    assert (stopped.status_code, tomorrow in stopped.text, "policy.yaml:" in stopped.text) == (403, True, True)
    at(proxy, hours=15, minutes=59)
    assert status(proxy) == 403
    at(proxy, hours=16)
    assert status(proxy) == 200


def test_the_count_outlives_the_proxy(start: Callable[..., Proxy], tmp_path: Path) -> None:
    policy = policy_of(tmp_path / "own")
    proxy = start(policy=policy, scripts=["clock.py"])
    for minute in (0, 1):
        at(proxy, minutes=minute)
        assert status(proxy) == 200
    proxy.stop()
    again = start(policy=policy, scripts=["clock.py"])
    at(again, minutes=2)
    assert status(again) == 403


def test_a_connection_that_is_not_decrypted_ends_when_its_minutes_are_used_up(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", 1, decrypt="where-needed"), scripts=["clock.py"])
    at(proxy)
    with relayed(proxy, "game.test") as tls, relayed(proxy, "other.test") as other:
        assert is_open(tls, "game.test")
        at(proxy, minutes=1)
        keep_asking(tls, "game.test")
        assert is_open(other, "other.test")
    proxy.log.wait_for("no connection for .* to https://game.test/.*minutes a day used")
    assert status(proxy, "https://game.test/") == 403


def keep_asking(connection: ssl.SSLSocket, host: str) -> None:
    """Until the connection ends."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and is_open(connection, host):
        time.sleep(0.05)


def test_a_websocket_ends_when_its_minutes_are_used_up(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", 1), scripts=["clock.py"])
    at(proxy)

    async def talk() -> bool:
        """Whether it ended."""
        async with connect("ws://game.test/chat", proxy=proxy.url, open_timeout=PATIENCE) as websocket:
            await websocket.send("x")
            assert await asyncio.wait_for(websocket.recv(), PATIENCE) == "x"
            await asyncio.to_thread(at, proxy, minutes=1)
            with suppress(ConnectionClosed):
                for _ in range(600):
                    await websocket.send("x")
                    await asyncio.wait_for(websocket.recv(), PATIENCE)
                    await asyncio.sleep(0.05)
                return False
            return True

    assert asyncio.run(talk())
    proxy.log.wait_for("no connection for .* to http://game.test/chat")
