"""A mitmproxy script for the tests: the server behind mitmproxy's resolver is the one on loopback that the test runs.

mitmproxy asks port 53 of the system's name servers, in part by a library that takes no other port. This sits below
mitmproxy, so that its resolver and the filter work as they do with real ones.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import struct
from typing import Any

import mitmproxy_rs
from mitmproxy import ctx, dns
from mitmproxy.addonmanager import Loader

from hushlist.extensions.resolution import resolver

_open_connection = asyncio.open_connection
_open_udp_connection = mitmproxy_rs.udp.open_udp_connection
_DnsResolver = mitmproxy_rs.dns.DnsResolver
_A, _AAAA = 1, 28
_Message = getattr(dns, "DNSMessage", None) or dns.Message  # its name in mitmproxy 12, and before


def _unescape(name: str) -> str:
    """As the real one reads a name: three octal digits, or any other character, behind a backslash."""
    return re.sub(r"\\([0-7]{3}|.|$)", lambda match: chr(int(match[1], 8)) if match[1][1:] else match[1], name)


class LoopbackResolver:
    """What mitmproxy asks for addresses."""

    def __init__(self, **_: Any) -> None:
        pass

    async def lookup_ipv4(self, name: str) -> list[str]:
        return await self._lookup(name, _A)

    async def lookup_ipv6(self, name: str) -> list[str]:
        return await self._lookup(name, _AAAA)

    async def _lookup(self, name: str, kind: int) -> list[str]:
        labels = b"".join(bytes((len(label),)) + label for label in _unescape(name).encode("idna").split(b"."))
        query = struct.pack("!HHHHHH", 1, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
            connection.setblocking(False)
            connection.connect(("127.0.0.1", ctx.options.upstream_dns))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, query)
            answer = _Message.unpack(await loop.sock_recv(connection, 65535))
        if answer.response_code:
            raise socket.gaierror(socket.EAI_NONAME, "there is no such name")
        return [str(ipaddress.ip_address(record.data)) for record in answer.answers if record.type == kind]


class Resolver:
    def load(self, loader: Loader) -> None:
        loader.add_option("upstream_dns", int, 0, "Loopback port that stands for port 53 of every name server.")
        mitmproxy_rs.dns.DnsResolver = LoopbackResolver
        mitmproxy_rs.udp.open_udp_connection = self.open_udp_connection

    def running(self) -> None:
        resolver.PORT = ctx.options.upstream_dns
        self._open_connection = asyncio.open_connection  # the one of upstream.py
        asyncio.open_connection = self.open_connection

    async def open_connection(self, host: str, port: int, **settings: Any) -> Any:
        upstream = ctx.options.upstream_dns
        if port in (53, upstream):
            return await _open_connection("127.0.0.1", upstream)
        return await self._open_connection(host, port, **settings)

    async def open_udp_connection(self, host: str, port: int, **_: Any) -> Any:
        if port not in (53, ctx.options.upstream_dns):
            raise ConnectionRefusedError(f"{host}:{port} is outside of the tests")
        return await _open_udp_connection("127.0.0.1", ctx.options.upstream_dns)

    def done(self) -> None:
        mitmproxy_rs.dns.DnsResolver = _DnsResolver
        mitmproxy_rs.udp.open_udp_connection = _open_udp_connection


addons = [Resolver()]
