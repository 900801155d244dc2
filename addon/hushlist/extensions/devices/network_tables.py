"""What this machine knows of the devices on its networks: the kernel's neighbours, and leases of DHCP servers.

All of it is bounded, and waits for nobody but the kernel.

Spec: rtnetlink(7), netlink(7); dnsmasq(8), "dhcp-leasefile"; Kea, 9.2.1 (memfile); dhcpd.leases(5)
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from hushlist.core.system.files import read_regular

#: leases of dnsmasq, Kea and ISC's server
_DNSMASQ = (Path("/var/lib/misc/dnsmasq.leases"), Path("/var/lib/dnsmasq/dnsmasq.leases"))
_KEA = (Path("/var/lib/kea/kea-leases4.csv"), Path("/var/lib/kea/kea-leases6.csv"))
_ISC = (Path("/var/lib/dhcp/dhcpd.leases"), Path("/var/lib/dhcpd/dhcpd.leases"))
_ARP = Path("/proc/net/arp")
#: octets of a file, and entries of a table
_LONGEST, MOST = 1 << 22, 1 << 14
_NAME = re.compile(r"[^\W_][\w.-]{0,62}")
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_ISC_LEASE = re.compile(r"^lease ([0-9.]+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_ISC_MAC = re.compile(r"^[ \t]*hardware ethernet ([0-9A-Fa-f:]+);", re.MULTILINE)
_ISC_NAME = re.compile(r'^[ \t]*client-hostname "([^"]*)";', re.MULTILINE)
#: numbers of rtnetlink
_GET, _NEW, _DUMP, _DONE, _ERROR = 30, 28, 0x301, 3, 2
_ADDRESS, _LINK = 1, 2
#: of entries that are of no device: incomplete, failed, without a link
_UNUSABLE = 0x01 | 0x20 | 0x40
_HEAD, _ENTRY, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBHiHBB"), struct.Struct("=HH")
_PATIENCE = 2.0


class Seen(NamedTuple):
    """An address, and who has it."""

    address: str
    #: in lower case, with colons; empty if it is not known
    mac: str
    #: the name that the device gives itself
    host: str = ""


class TableError(OSError):
    """The kernel's table cannot be read as a whole."""


def is_random(mac: str) -> bool:
    """Whether a device has made the address up, as telephones do for each network.

    Spec: IEEE 802c: the bit of local administration

    >>> is_random("da:a1:19:00:00:01"), is_random("00:00:5e:00:53:01")
    (True, False)
    """
    return bool(int(mac[:2], 16) & 2)


def mac_of(text: str) -> str | None:
    """A MAC in one form; ``None`` if it is none.

    >>> mac_of("00-00-5E-00-53-01")
    '00:00:5e:00:53:01'
    """
    mac = text.strip().lower().replace("-", ":")
    return mac if _MAC.fullmatch(mac) and mac not in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff") else None


# -- neighbours --------------------------------------------------------------------------------------------------------


def neighbours() -> list[Seen]:
    """The kernel's neighbours, of IPv4 and IPv6.

    Raises:
        TableError: it cannot be read, or has too many entries.
    """
    family = getattr(socket, "AF_NETLINK", None)  # Linux has it alone
    if family is None:
        raise TableError("this system does not tell of its neighbours")
    try:
        seen, is_whole = _dumped(family)
    except OSError as error:
        raise TableError(error.strerror or "the kernel does not answer") from error
    if not is_whole:
        raise TableError(f"the kernel refuses it, or it has more than {MOST:,} entries")
    return seen


def _dumped(family: int) -> tuple[list[Seen], bool]:
    """Entries of the kernel's table, and whether they are all."""
    seen = list[Seen]()
    with socket.socket(family, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(_PATIENCE)
        kernel.send(_HEAD.pack(_HEAD.size + _ENTRY.size, _GET, _DUMP, 1, 0) + _ENTRY.pack(0, 0, 0, 0, 0, 0, 0))
        while len(seen) <= MOST:
            kind, entries = _messages(kernel.recv(1 << 16))
            seen += entries
            if kind in (_DONE, _ERROR):
                return seen, kind == _DONE
    return seen, False


def _messages(octets: bytes) -> tuple[int, list[Seen]]:
    """The kind of the last message, and the entries of all."""
    at, kind, seen = 0, 0, list[Seen]()
    while at + _HEAD.size <= len(octets):
        length, kind, *_ = _HEAD.unpack_from(octets, at)
        if length < _HEAD.size or kind in (_DONE, _ERROR):
            break
        if kind == _NEW and (entry := _entry(octets[at + _HEAD.size : at + length])) is not None:
            seen.append(entry)
        at += (length + 3) & ~3
    return kind, seen


def _entry(octets: bytes) -> Seen | None:
    if len(octets) < _ENTRY.size:
        return None
    family, _, _, _, state, _, _ = _ENTRY.unpack_from(octets)
    if family not in (socket.AF_INET, socket.AF_INET6) or state & _UNUSABLE or not state:
        return None
    values, at = dict[int, bytes](), _ENTRY.size
    while at + _ATTRIBUTE.size <= len(octets):
        length, kind = _ATTRIBUTE.unpack_from(octets, at)
        if length < _ATTRIBUTE.size:
            break
        values[kind] = octets[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    mac = mac_of(values.get(_LINK, b"").hex(":"))
    with suppress(ValueError):
        return None if mac is None else Seen(socket.inet_ntop(family, values.get(_ADDRESS, b"")), mac)
    return None


def arp_addresses(root: Path) -> Iterator[str]:
    """Spec: proc_net(5), /proc/net/arp: flags with the bit 2 are of an entry that is complete."""
    for fields in map(str.split, _text(root, _ARP).splitlines()[1:]):
        with suppress(ValueError):
            if len(fields) > 2 and int(fields[2], 16) & 2:
                yield fields[0]


# -- leases ------------------------------------------------------------------------------------------------------------


def leases(root: Path = Path("/")) -> list[Seen]:
    """What DHCP servers on this machine have given out, an address once: the last that a file says holds."""
    by_address = {
        lease.address: lease for read in (_dnsmasq, _kea, _isc) for lease in read(root) if _is_address(lease.address)
    }
    return list(by_address.values())[:MOST]


def _dnsmasq(root: Path) -> Iterator[Seen]:
    for path in _DNSMASQ:
        for fields in map(str.split, _text(root, path).splitlines()):
            if len(fields) >= 4:
                yield Seen(fields[2], mac_of(fields[1]) or "", _name(fields[3]))


def _kea(root: Path) -> Iterator[Seen]:
    for path in _KEA:
        head, *lines = _text(root, path).splitlines() or [""]
        names = head.split(",")
        for line in lines:
            row = dict(zip(names, line.split(","), strict=False))
            mac = mac_of(row.get("hwaddr", "")) or ""
            yield Seen(row.get("address", ""), mac, _name(row.get("hostname", "").rstrip(".").partition(".")[0]))


def _isc(root: Path) -> Iterator[Seen]:
    for path in _ISC:
        for address, block in _ISC_LEASE.findall(_text(root, path)):
            mac, name = _ISC_MAC.search(block), _ISC_NAME.search(block)
            yield Seen(address, (mac and mac_of(mac[1])) or "", _name(name[1]) if name else "")


def unreadable_leases(root: Path) -> Iterator[tuple[Path, str]]:
    """The files of DHCP servers that are there and cannot be read, and why."""
    for path in (*_DNSMASQ, *_KEA, *_ISC):
        try:
            read_regular(root / path.relative_to("/"), _LONGEST)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield path, error.strerror or str(error)


def _text(root: Path, path: Path) -> str:
    with suppress(OSError):
        return read_regular(root / path.relative_to("/"), _LONGEST).decode("utf-8", "replace")
    return ""


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else ""


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        ip_address(text)
        return True
    return False
