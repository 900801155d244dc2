"""The devices that this machine can see on its network: by the neighbours of the kernel, and by leases of DHCP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

from hushlist.core.system.files import read_regular
from hushlist.extensions.devices.network_tables import arp_addresses, leases
from hushlist.extensions.first_start.questionnaire import Device

_ROUTES = Path("/proc/net/route")
_LONGEST, _MOST = 1 << 20, 32
#: an address for documentation: nothing is sent there
_ELSEWHERE = ("192.0.2.1", 9)


def seen_devices(clients: Iterable[str] = (), *, root: Path = Path("/")) -> list[Device]:
    """Devices by address, with the names of their leases; ``clients``: addresses that have used the proxy."""
    names = {lease.address: lease.host for lease in leases(root)}
    addresses = {*names, *arp_addresses(root), *clients} - {*_gateways(root), own_address()}
    devices = [Device(address, names.get(address, "")) for address in addresses if _is_device(address)]
    return sorted(devices, key=lambda device: (not device.name, ip_address(device.address).packed))[:_MOST]


def own_address() -> str:
    """This machine's address in its network, such as a device has to be given; loopback if it has none."""
    with suppress(OSError), socket(AF_INET, SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def own_zone(root: Path = Path("/")) -> str:
    """The time zone of this machine; UTC if it does not say."""
    named = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError):
        named = named or (root / "etc/timezone").read_text(encoding="ascii").strip()
    with suppress(OSError):
        named = named or str((root / "etc/localtime").resolve()).rpartition("zoneinfo/")[2]
    return named if re.fullmatch(r"[A-Za-z]+(?:/[\w+-]+){0,2}", named) else "UTC"


def _is_device(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local)


def _lines(root: Path, path: Path) -> list[list[str]]:
    with suppress(OSError):
        text = read_regular(root / path.relative_to("/"), _LONGEST).decode("utf-8", "replace")
        return [line.split() for line in text.splitlines()]
    return []


def _gateways(root: Path) -> Iterator[str]:
    """The addresses of routers: of the kernel's default routes, whose octets stand in this machine's order."""
    for fields in _lines(root, _ROUTES)[1:]:
        with suppress(ValueError):
            if len(fields) > 2 and fields[1] == "00000000":
                yield str(ip_address(bytes.fromhex(fields[2])[::-1]))
