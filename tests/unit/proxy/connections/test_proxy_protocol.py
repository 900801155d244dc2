"""The PROXY protocol: what a header says, that nothing behind it is read, and that only who is named is believed."""

from __future__ import annotations

import asyncio
import re
from ipaddress import ip_address

import pytest

from hushlist.proxy.connections.proxy_protocol import ClientEnds, HeaderError, read_balancers, read_header

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("octets", [TEXT, binary(ENDS), binary(ENDS_6)])
def test_a_header_that_ends_early_is_none(octets: bytes) -> None:
    for length in range(len(octets)):
        with pytest.raises(asyncio.IncompleteReadError):
            read(octets[:length])


def test_at_most_one_line_is_waited_for() -> None:
    async def run() -> int:
        reader = asyncio.StreamReader()
        reader.feed_data(b"PROXY " + 300 * b"a")
        with pytest.raises(HeaderError):
            await read_header(reader)
        reader.feed_eof()
        return len(await reader.read())

    assert asyncio.run(run()) == 306 - 107


def test_balancers_are_addresses_and_networks() -> None:
    assert [*map(str, read_balancers(["127.0.0.2", "fd00::/64"]))] == ["127.0.0.2/32", "fd00::/64"]
    for wrong in ("haproxy", "127.0.0.2/8", ""):
        with pytest.raises(ValueError, match=re.escape(wrong or "''")):
            read_balancers([wrong])
