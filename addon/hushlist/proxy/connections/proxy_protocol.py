"""The PROXY protocol, versions 1 and 2: a load balancer in front says whose connection it hands on.

Only the addresses that an option names are believed, and they have to send a header each time: without one, nobody
knows who asks. Whoever else sends one sends no HTTP. Spec: HAProxy, The PROXY protocol, Versions 1 & 2

>>> parse_text(b"PROXY TCP4 10.0.0.7 192.0.2.1 51000 8080\\r\\n")
ClientEnds(client=('10.0.0.7', 51000), proxy=('192.0.2.1', 8080))
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from mitmproxy import connection, ctx
from mitmproxy.utils import human

from hushlist.core.errors import HushlistError, logger_of
from hushlist.core.policy.groups import is_in
from hushlist.proxy.connections.client_connections import handler_of

logger = logger_of(__name__)

#: seconds for a header; "a receiver ... should wait at least 3 seconds"
PATIENCE = 10.0
#: "a 107-byte buffer is always enough to process all the line and a trailing zero"
_LONGEST_LINE = 107
_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
#: octets behind the 16 of the second version: addresses, and whatever else a balancer tells
_LONGEST_REST = 4096
_LINE = re.compile(rb"PROXY TCP([46]) ([0-9A-Fa-f.:]{2,39}) ([0-9A-Fa-f.:]{2,39}) ([0-9]{1,5}) ([0-9]{1,5})\r\n")
_LOCAL, _PROXY = 0x20, 0x21
#: family and protocol -> octets of an address
_STREAMS = {0x11: 4, 0x21: 16}


class HeaderError(HushlistError):
    """A header that says nothing usable."""


class ClientEnds(NamedTuple):
    """The two ends of the connection that a client made: addresses and ports."""

    client: tuple[str, int]
    #: what it connected to, of the load balancer
    proxy: tuple[str, int]


def parse_text(line: bytes) -> ClientEnds:
    """A header of version 1, with its line end.

    Raises:
        HeaderError: it is none, or does not know the client (``UNKNOWN``).
    """
    match = _LINE.fullmatch(line)
    try:
        addresses = [ip_address(match[number].decode()) for number in (2, 3)] if match else []
    except ValueError:
        addresses = []
    ports = [int(match[number]) for number in (4, 5)] if match else []
    if not match or {str(address.version) for address in addresses} != {match[1].decode()} or max(ports) >= 1 << 16:
        raise HeaderError(f"no address of a client: {line!r}")
    return _ends(addresses, ports)


def parse_binary(head: bytes, rest: bytes) -> ClientEnds | None:
    """A header of version 2: its first 16 octets, and as many more as they say; ``None`` for the balancer's own.

    Raises:
        HeaderError: it is none, or does not know the client.
    """
    if head[12] == _LOCAL:
        return None
    size = _STREAMS.get(head[13])
    if head[12] != _PROXY or size is None or len(rest) < 2 * size + 4:
        raise HeaderError(f"no address of a client: {head[12:16].hex()}, and {len(rest)} octets")
    kind = IPv4Address if size == 4 else IPv6Address
    ports = [int.from_bytes(rest[2 * size + place : 2 * size + place + 2]) for place in (0, 2)]
    return _ends([kind(rest[:size]), kind(rest[size : 2 * size])], ports)


def _ends(addresses: Iterable[IPv4Address | IPv6Address], ports: Iterable[int]) -> ClientEnds:
    plain = (str(getattr(address, "ipv4_mapped", None) or address) for address in addresses)
    return ClientEnds(*zip(plain, ports, strict=True))


async def read_header(reader: asyncio.StreamReader) -> ClientEnds | None:
    """Read a header of either version, and nothing behind it; ``None`` for a connection of the balancer's own.

    Raises:
        HeaderError: it is none, or does not know the client.
        IncompleteReadError: the connection ended first.
    """
    start = await reader.readexactly(len(_SIGNATURE))
    try:
        return await _read_rest(start, reader)
    except asyncio.IncompleteReadError as error:
        raise asyncio.IncompleteReadError(start + error.partial, error.expected) from error


async def _read_rest(start: bytes, reader: asyncio.StreamReader) -> ClientEnds | None:
    if start == _SIGNATURE:
        head = start + await reader.readexactly(4)
        length = int.from_bytes(head[14:])
        if length > _LONGEST_REST:
            raise HeaderError(f"a header of {length} octets")
        return parse_binary(head, await reader.readexactly(length))
    while start.startswith(b"PROXY ") and not start.endswith(b"\n") and len(start) < _LONGEST_LINE:
        start += await reader.readexactly(1)
    return parse_text(start)


def read_balancers(texts: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """The value of the option.

    Raises:
        ValueError: one is no address and no network, or has bits behind its prefix.
    """
    return tuple(ip_network(text.strip()) for text in texts)


class ProxyProtocol:
    """Takes clients' addresses from the load balancers that are named."""

    def __init__(self) -> None:
        #: addresses that are believed
        self.balancers: tuple[IPv4Network | IPv6Network, ...] = ()
        #: where clients connect to them
        self.fronts: set[tuple[str, int]] = set()

    def connected(self, client: connection.Client) -> Awaitable[None] | None:
        """mitmproxy's hook: it waits for this before it reads what the client sends."""
        is_tcp = client.transport_protocol == "tcp"
        return self._take(client) if self.balancers and is_tcp and is_in(client.peername[0], self.balancers) else None

    async def _take(self, client: connection.Client) -> None:
        """Read the header; without one that can be used, mitmproxy closes the connection."""
        balancer = client.peername[0]
        try:
            handler = handler_of(client)
            async with asyncio.timeout(PATIENCE):
                ends = await read_header(handler.transports[client].reader)
            if ends is not None:
                client.peername, client.sockname = ends
                self.fronts.add(ends.proxy)
                handler.log_prefix = f"{human.format_address(client.peername)}: "
                _block_as_mitmproxy_does(client)
        except asyncio.IncompleteReadError as error:
            client.error = "the load balancer sent no header of the PROXY protocol"
            if error.partial:  # else it only looked whether somebody listens
                logger.warning("hushlist: %s: %s ended within a header", balancer, client.error)
        except Exception as error:  # after any error, nobody knows who the client is
            client.error = f"no header of the PROXY protocol: {error!r}"
            logger.warning("hushlist: %s: %s", balancer, client.error)


def _block_as_mitmproxy_does(client: connection.Client) -> None:
    """Ask ``block_global`` and ``block_private`` again: they have seen the load balancer's address."""
    block = ctx.master.addons.get("block")
    if block is not None:
        block.client_connected(client)
