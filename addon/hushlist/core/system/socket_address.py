"""Where a server listens: an address, or a name, and a port, as operators write it."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]+)):([0-9]{1,5})")


def parse_socket_address(text: str) -> tuple[str, int]:
    """An address, or a name, and a port.

    >>> parse_socket_address("127.0.0.1:8080"), parse_socket_address("[::1]:8080"), parse_socket_address("localhost:0")
    (('127.0.0.1', 8080), ('::1', 8080), ('localhost', 0))

    Raises:
        ValueError: it is none.
    """
    match = _PLACE.fullmatch(text)
    if match is not None and int(match[3]) < 1 << 16:
        with suppress(ValueError):
            host = match[2] or str(IPv6Address(match[1]))
            return str(IPv4Address(host)) if host.rpartition(".")[2].isdigit() else host, int(match[3])
    raise ValueError("expected an address and a port, such as 127.0.0.1:8080 or [::1]:8080")
