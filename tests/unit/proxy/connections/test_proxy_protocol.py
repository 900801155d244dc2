"""The PROXY protocol: what a header says, that nothing behind it is read, and that only who is named is believed."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from types import SimpleNamespace

import pytest
from mitmproxy import connection
from mitmproxy.addons.block import Block
from mitmproxy.test import taddons

from hushlist.proxy.connections import proxy_protocol
from hushlist.proxy.connections.proxy_protocol import (
    ClientEnds,
    HeaderError,
    ProxyProtocol,
    read_balancers,
    read_header,
)
from unit.rows import each_row

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
ENDS = ClientEnds(("10.0.0.7", 51000), ("192.0.2.1", 8080))
ENDS_6 = ClientEnds(("2001:db8::7", 65535), ("2001:db8::1", 1))
TEXT = b"PROXY TCP4 10.0.0.7 192.0.2.1 51000 8080\r\n"
TEXT_6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 65535 1\r\n"


def binary(ends: ClientEnds, command: int = 0x21, more: bytes = b"", family: int | None = None) -> bytes:
    addresses = b"".join(ip_address(host).packed for host, _ in ends)
    rest = addresses + b"".join(port.to_bytes(2) for _, port in ends) + more
    family = (0x21 if len(addresses) > 8 else 0x11) if family is None else family
    return _SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2) + rest


def read(octets: bytes) -> tuple[ClientEnds | None, bytes]:
    """What a header says, and what is left behind it."""

    async def run() -> tuple[ClientEnds | None, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        reader.feed_eof()
        return await read_header(reader), await reader.read()

    return asyncio.run(run())


@each_row(
    ("octets", "ends"),
    [
        (TEXT, ENDS),
        (TEXT_6, ENDS_6),
        (b"PROXY TCP6 ::ffff:10.0.0.7 ::ffff:192.0.2.1 51000 8080\r\n", ENDS),
        (binary(ENDS), ENDS),
        (binary(ENDS_6), ENDS_6),
        (binary(ENDS, more=b"\x04\x00\x03\x01\x02\x03"), ENDS),  # the balancer tells more, as with a TLS name
        (binary(ENDS, command=0x20), None),  # its own, to see whether somebody is there
        (_SIGNATURE + b"\x20\x00\x00\x00", None),
    ],
)
def test_a_header_is_read_and_nothing_behind_it(octets: bytes, ends: ClientEnds | None) -> None:
    assert read(octets + b"GET http://h.example/ HTTP/1.1\r\n\r\n") == (ends, b"GET http://h.example/ HTTP/1.1\r\n\r\n")


@each_row(
    "octets",
    [
        b"GET http://h.example/ HTTP/1.1\r\n\r\n",
        b"PROXY UNKNOWN\r\n",
        b"PROXY TCP4 10.0.0.7 192.0.2.1 51000 8080\n",
        b"PROXY TCP4 10.0.0.7 192.0.2.1 51000 65536\r\n",
        b"PROXY TCP4 10.0.0.7 192.0.2.1 51000\r\n",
        b"PROXY TCP4 10.0.0.256 192.0.2.1 51000 8080\r\n",
        b"PROXY TCP6 10.0.0.7 192.0.2.1 51000 8080\r\n",
        b"PROXY TCP4 ::1 ::1 51000 8080\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        b"PROXY \nGET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00",
        binary(ENDS, command=0x31),  # of another version
        binary(ENDS, command=0x22),
        binary(ENDS, family=0x21),  # too short for what it says
        binary(ENDS, family=0x12),  # datagrams
        binary(ENDS, family=0x00),
        binary(ENDS, more=bytes(5000)),
    ],
)
def test_what_names_no_client_is_refused_without_reading_on(octets: bytes) -> None:
    with pytest.raises(HeaderError):
        read(octets)


def test_at_most_one_line_is_waited_for() -> None:
    async def run() -> int:
        reader = asyncio.StreamReader()
        reader.feed_data(b"PROXY " + 300 * b"a")
        with pytest.raises(HeaderError):
            await read_header(reader)
        reader.feed_eof()
        return len(await reader.read())

    assert asyncio.run(run()) == 306 - 107


def client_at(address: str, protocol: str = "tcp") -> connection.Client:
    return connection.Client(
        peername=(address, 40000),
        sockname=("127.0.0.1", 8080),
        timestamp_start=1.0,
        transport_protocol=protocol,  # type: ignore[arg-type]
    )


@each_row(
    ("address", "protocol", "balancers", "is_believed"),
    [
        ("10.1.2.3", "tcp", ["10.0.0.0/8"], True),
        ("::ffff:10.1.2.3", "tcp", ["fd00::/64", "10.0.0.0/8"], True),
        ("fe80::1%eth0", "tcp", ["fe80::1"], True),
        ("10.1.2.3", "udp", ["10.0.0.0/8"], False),
        ("11.1.2.3", "tcp", ["10.0.0.0/8"], False),
        ("fd00:0:0:1::", "tcp", ["fd00::/64"], False),
        ("10.1.2.3", "tcp", [], False),
    ],
)
def test_only_who_is_named_is_believed(address: str, protocol: str, balancers: list[str], is_believed: bool) -> None:
    own = ProxyProtocol()
    own.balancers = read_balancers(balancers)
    waited = own.connected(client_at(address, protocol))
    assert (waited is not None) is is_believed
    if waited is not None:
        waited.close()  # type: ignore[attr-defined]


def connected(
    octets: bytes, monkeypatch: pytest.MonkeyPatch, *, ends: bool = True, **options: object
) -> tuple[connection.Client, ProxyProtocol, SimpleNamespace]:
    """A client that a balancer hands on with these octets, what has read them, and mitmproxy's handler."""
    client, own = client_at("127.0.0.9"), ProxyProtocol()
    own.balancers = read_balancers(["127.0.0.9"])
    handler = SimpleNamespace(log_prefix="127.0.0.9:40000: ")
    monkeypatch.setattr(proxy_protocol, "handler_of", {client: handler}.get)

    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        if ends:
            reader.feed_eof()
        handler.transports = {client: SimpleNamespace(reader=reader)}
        waited = own.connected(client)
        assert waited is not None
        with taddons.context(Block()) as context:
            context.configure(context.master.addons.get("block"), **options)
            await waited

    asyncio.run(run())
    return client, own, handler


def test_a_client_gets_the_address_that_its_balancer_names(monkeypatch: pytest.MonkeyPatch) -> None:
    client, own, handler = connected(TEXT, monkeypatch)
    assert (client.peername, client.sockname, client.error) == (*ENDS, None)
    assert own.fronts == {ENDS.proxy}
    assert handler.log_prefix == "10.0.0.7:51000: "


@pytest.mark.parametrize(
    ("octets", "ends", "error", "is_told"),
    [
        (b"GET / HTTP/1.1\r\n", True, "no header of the PROXY protocol", True),
        (TEXT[:20], True, "sent no header", True),
        (b"", True, "sent no header", False),  # it only looked whether somebody listens
        (TEXT[:20], False, "TimeoutError", True),
    ],
)
def test_without_a_header_there_is_no_connection(
    octets: bytes,
    ends: bool,
    error: str,
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(proxy_protocol, "PATIENCE", 0.01)
    client, _, _ = connected(octets, monkeypatch, ends=ends)
    assert client.peername == ("127.0.0.9", 40000)
    assert error in (client.error or "")
    assert ("hushlist: 127.0.0.9: " in caplog.text) is is_told
