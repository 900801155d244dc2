"""A proxy that ends waits only a moment for a database that gives no answer."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from threading import Event

import pytest
from mitmproxy.test import taddons

from hushlist.fleet.proxy_records import ProxyRecords
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service import heartbeat as module
from hushlist.proxy.service.heartbeat import Heartbeat


@pytest.mark.parametrize("slow", ["beat", "leave"])
def test_a_store_that_gives_no_answer_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    answered, has_beaten, closed = Event(), Event(), Event()

    def waits(name: str) -> None:
        has_beaten.set()
        if name == slow:
            answered.wait(60)

    monkeypatch.setattr(ProxyRecords, "beat", lambda *_: waits("beat"))
    monkeypatch.setattr(ProxyRecords, "leave", lambda *_: waits("leave"))
    monkeypatch.setattr(ProxyRecords, "close", lambda _: closed.set())

    async def live() -> None:
        with taddons.context():
            heartbeat = Heartbeat(Runtime())
            heartbeat.run()
            while not has_beaten.is_set():
                await asyncio.sleep(0.01)
            start = time.monotonic()
            heartbeat.close()
            assert time.monotonic() - start < 10
            if slow == "beat":
                assert closed.wait(60)  # so that what waits for the answer ends
            answered.set()
            assert closed.wait(60)

    asyncio.run(live())
