"""Turns: of a client that sends much, and of one that reads nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from mitmproxy import connection
from mitmproxy.test import tflow

from hushlist.proxy.connections import client_connections, turns
from hushlist.proxy.connections.turns import MOST_UNREAD, SLICE, Turns, note_answer


def test_who_sends_much_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, done = [0.0], list[str]()
    monkeypatch.setattr(turns, "perf_counter", lambda: moment[0])

    async def handle(own: Turns, client: connection.Client, name: str) -> None:
        if (turn := own.wait(client)) is not None:
            await turn
        moment[0] += SLICE * 0.6
        done.append(name)

    async def whole() -> None:
        own, client = Turns(), tflow.tclient_conn()
        many = [asyncio.ensure_future(handle(own, client, "many")) for _ in range(20)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(
            handle(own, tflow.tclient_conn(), "other")
        )  # its octets are read when the loop looks again
        await asyncio.gather(*many, other)

    asyncio.run(whole())
    assert done.count("many") == 20
    assert done.index("other") <= 5


class _Writer(asyncio.StreamWriter):
    """What writes to a client that has so many octets to read, and reads them in some way."""

    def __init__(self, octets: int, drain: Iterator[object] | None = None) -> None:
        self._sizes = SimpleNamespace(get_write_buffer_size=lambda: octets)
        self._drain = drain

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._sizes  # type: ignore[return-value]

    async def drain(self) -> None:
        if self._drain is None:
            await asyncio.Event().wait()
        elif isinstance(found := next(self._drain), Exception):
            raise found


@pytest.mark.parametrize(
    ("writer", "is_awaited", "ended"),
    [
        (_Writer(MOST_UNREAD), False, 0),
        (_Writer(MOST_UNREAD + 1, iter([None])), True, 0),
        (_Writer(MOST_UNREAD + 1, iter([ConnectionResetError()])), True, 0),
        (_Writer(MOST_UNREAD + 1), True, 1),  # it reads nothing for long
        (None, False, 0),  # over UDP
    ],
)
def test_a_request_waits_until_its_client_has_read_what_was_answered(
    monkeypatch: pytest.MonkeyPatch, writer: _Writer | None, is_awaited: bool, ended: int
) -> None:
    client, closed = tflow.tclient_conn(), list[connection.Connection]()
    io = SimpleNamespace(handler=object(), writer=writer)
    handler = SimpleNamespace(transports={client: io}, close_connection=closed.append)
    for module in (client_connections, turns):
        monkeypatch.setattr(module, "handler_of", lambda _: handler)
    monkeypatch.setattr(turns, "UNREAD_PATIENCE", 0.01)

    async def wait() -> None:
        own = Turns()
        assert own.wait(client) is None  # what waits is of origins
        note_answer(client, MOST_UNREAD + 1)
        waited = own.wait(client)
        assert (waited is not None) is is_awaited
        if waited is not None:
            await waited

    asyncio.run(wait())
    assert len(closed) == ended
