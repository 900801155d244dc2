"""The devices that this machine can see on its network: by the neighbours of the kernel, and by leases of DHCP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

from hushlist.core.errors import one_line
from hushlist.core.system.files import read_regular
from hushlist.extensions.first_start.questionnaire import Device

_NEIGHBOURS, _ROUTES = Path("/proc/net/arp"), Path("/proc/net/route")
#: leases of dnsmasq and of Kea
_LEASES = (Path("/var/lib/misc/dnsmasq.leases"), Path("/var/lib/dnsmasq/dnsmasq.leases"))
_KEA = Path("/var/lib/kea/kea-leases4.csv")
_LONGEST, _MOST = 1 << 20, 32
_NAME = re.compile(r"[^\W_][\w.-]{0,62}")
#: an address for documentation: nothing is sent there
_ELSEWHERE = ("192.0.2.1", 9)


def seen_devices(clients: Iterable[str] = (), *, root: Path = Path("/")) -> list[Device]:
    """Devices by address, with the names of their leases; ``clients``: addresses that have used the proxy."""
    leases = {**dict(_dnsmasq_leases(root)), **dict(_kea_leases(root))}
    addresses = {*leases, *_neighbours(root), *clients} - {*_gateways(root), own_address()}
    found = [Device(address, leases.get(address, "")) for address in addresses if _is_device(address)]
    return sorted(found, key=lambda device: (not device.name, ip_address(device.address).packed))[:_MOST]


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


def _neighbours(root: Path) -> Iterator[str]:
    """Spec: proc_net(5), /proc/net/arp: flags with the bit 2 are of an entry that is complete."""
    for fields in _lines(root, _NEIGHBOURS)[1:]:
        with suppress(ValueError):
            if len(fields) > 2 and int(fields[2], 16) & 2:
                yield fields[0]


def _gateways(root: Path) -> Iterator[str]:
    """The addresses of routers: of the kernel's default routes, whose octets stand in this machine's order."""
    for fields in _lines(root, _ROUTES)[1:]:
        with suppress(ValueError):
            if len(fields) > 2 and fields[1] == "00000000":
                yield str(ip_address(bytes.fromhex(fields[2])[::-1]))


def _dnsmasq_leases(root: Path) -> Iterator[tuple[str, str]]:
    for path in _LEASES:
        for fields in _lines(root, path):
            if len(fields) >= 4:
                yield fields[2], _name(fields[3])


def _kea_leases(root: Path) -> Iterator[tuple[str, str]]:
    """Spec: Kea, 9.2.1 (memfile): address, hwaddr, …, the ninth column is the host name."""
    for fields in _lines(root, _KEA)[1:]:
        columns = " ".join(fields).split(",")
        if len(columns) >= 9:
            yield columns[0], _name(columns[8].rstrip(".").partition(".")[0])


def _name(text: str) -> str:
    return one_line(text) if _NAME.fullmatch(text) else ""
