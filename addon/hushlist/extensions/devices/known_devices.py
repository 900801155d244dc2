"""The policy's ``devices``, and which of them has an address now.

A MAC is known by the kernel's neighbours, or by a lease where the device is behind a router. Who has the address is
sure only where both agree and nobody else claims it; otherwise the address has no device, and rules for addresses
alone hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event

from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import LONGEST_USER, UNNAMED, Client, address_text
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    list_of,
    names_of,
    of_node,
    read_rows,
    schema_of_rows,
    some_of,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.core.url.host import is_address
from hushlist.extensions.devices.network_tables import Seen, TableError, leases, mac_of, neighbours

#: most devices of a policy, and most characters of a name
_MOST, _LONGEST = 4096, 60
_MACS = {"type": "string", "pattern": "^[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}$"}


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device that the policy names: by any of these it is known."""

    name: str
    macs: frozenset[str] = frozenset()
    host: str = ""
    user: str = ""
    addresses: frozenset[str] = frozenset()


@dataclass(slots=True)
class Network:
    """What was seen of this machine's networks the last time, by address; ``network_of`` makes it."""

    macs: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    #: addresses of which it is not sure who has them, and why
    doubts: Mapping[str, str] = field(default_factory=dict)
    #: why nothing is known, if so
    fault: str | None = None
    #: whether anybody has looked, or looks all the time as the proxy does; else the first who asks looks once
    is_seen: bool = False
    #: set when somebody asks for an address that was not seen
    is_asked: Event = field(default_factory=Event)

    def take(self, network: Network) -> None:
        """Have what was seen now."""
        self.macs, self.hosts, self.doubts, self.fault = network.macs, network.hosts, network.doubts, network.fault
        self.is_seen = True


#: this machine's: it is the same for every policy
NETWORK = Network()


def network_of(neighbours: Iterable[Seen], leases: Iterable[Seen]) -> Network:
    """Who has which address.

    >>> network = network_of([Seen("10.0.0.7", "00:00:5e:00:53:01")], [Seen("10.0.0.7", "00:00:5e:00:53:02", "tablet")])
    >>> network.macs, network.doubts
    ({}, {'10.0.0.7': '00:00:5e:00:53:01 uses it, and 00:00:5e:00:53:02 was given it'})
    """
    here, leased = defaultdict[str, set[str]](set), {address_text(lease.address): lease for lease in leases}
    for neighbour in neighbours:
        here[address_text(neighbour.address)].add(neighbour.mac)
    macs, hosts, doubts = dict[str, str](), dict[str, str](), dict[str, str]()
    for address in {*here, *leased}:
        lease, users = leased.get(address), here.get(address, set())
        if len(users) > 1:
            doubts[address] = f"{' and '.join(sorted(users))} use it"
        elif users and lease is not None and lease.mac and lease.mac not in users:
            doubts[address] = f"{next(iter(users))} uses it, and {lease.mac} was given it"
        else:
            mac = next(iter(users), "") or (lease.mac if lease else "")
            macs |= {address: mac} if mac else {}
            hosts |= {address: lease.host} if lease and lease.host else {}
    return Network(macs, hosts, doubts, is_seen=True)


def seen_now(leased: Iterable[Seen]) -> Network:
    """What the kernel knows now, beside leases; it may have to be waited for."""
    try:
        return network_of(neighbours(), leased)
    except TableError as error:
        return Network(fault=f"the neighbours of this machine are not known: {error}")


def device_names(policy: Policy) -> Callable[[str, str | None], str | None] | None:
    """What tells the device of an address and a user; ``None`` if the policy names no devices."""
    devices: tuple[KnownDevice, ...] = policy.of("devices")
    if not devices:
        return None
    by_mac = {mac: device.name for device in devices for mac in device.macs}
    by_host = {device.host.lower(): device.name for device in devices if device.host}
    by_user = {device.user: device.name for device in devices if device.user}
    by_address = {address: device.name for device in devices for address in device.addresses}
    network = NETWORK

    def name(client: str, user: str | None) -> str | None:
        if user is not None and user in by_user:
            return by_user[user]
        if not network.is_seen:
            network.take(seen_now(leases()))
        address = address_text(client).partition("%")[0]
        mac = network.macs.get(address)
        if mac is None:
            if address not in network.doubts and address not in by_address and not LOOPBACK.fits(Client(address)):
                network.is_asked.set()
            return None if address in network.doubts else by_address.get(address)
        label = by_mac.get(mac) or by_host.get(network.hosts.get(address, "").lower()) or by_address.get(address)
        return label or UNNAMED

    return name


def known_clients(policy: Policy) -> dict[str, str]:
    """The names of devices that have one, by address and by ``user:NAME``, as far as they are known now."""
    name = device_names(policy)
    if name is None:
        return {}
    devices: tuple[KnownDevice, ...] = policy.of("devices")
    addresses = {*NETWORK.macs, *(address for device in devices for address in device.addresses)}
    labels = {address: name(address, None) for address in sorted(addresses)}
    labels |= {f"user:{device.user}": device.name for device in devices if device.user}
    return {client: label for client, label in labels.items() if label not in (None, UNNAMED)}


# -- the key -----------------------------------------------------------------------------------------------------------


def _text_or_list(read: Callable[[str], str | None], expected: str) -> Callable[[YamlNode, Reading], frozenset[str]]:
    def read_node(node: YamlNode, reading: Reading) -> frozenset[str]:
        pairs = [(item, read(item.value) if isinstance(item.value, str) else None) for item in node.items]
        for item, value in pairs:
            if value is None:
                reading.report.error(item.line, str(item), expected)
        return frozenset(value for _, value in pairs if value is not None)

    return read_node


def _address(text: str) -> str | None:
    return address_text(text) if is_address(text.encode("utf-8", "replace")) else None


_KEYS = (
    Key("name", Type(any_text.read, {"$of": TEXT, "maxLength": _LONGEST}), is_required=True).says("""what people call
        it: at most 60 characters, and every device's is another one; not `unnamed`"""),
    Key(
        "mac",
        of_node(_text_or_list(mac_of, "expected a MAC such as 00:00:5e:00:53:01"), lambda: some_of(_MACS)),
        into="macs",
    ).says("""its hardware address, or a list of them, as one for the cable and one for the Wi-Fi"""),
    Key("host", Type(any_text.read, TEXT)).says("""the name that it gives itself when a DHCP server on this machine
        gives it an address: whoever has the device can change that"""),
    Key("user", Type(any_text.read, {"$of": TEXT, "maxLength": LONGEST_USER})).says("""the user of the proxy who signs
        in there alone"""),
    Key(
        "addresses",
        of_node(
            _text_or_list(_address, "expected an address such as 192.168.1.7"),
            lambda: list_of({"type": "string"}, minItems=1),
        ),
    ).says("""addresses that are always its own; a MAC that is
        known goes before"""),
)


def _read(fields: MappingReader, key: str, reading: Reading) -> tuple[KnownDevice, ...]:
    devices = tuple(_devices(fields, key, reading))
    if len(devices) > _MOST:
        fields.error(key, f"expected at most {_MOST} devices")
    for what, values in (
        ("name", [device.name for device in devices]),
        ("MAC", [mac for device in devices for mac in device.macs]),
        ("host", [device.host.lower() for device in devices if device.host]),
        ("user", [device.user for device in devices if device.user]),
        ("address", [address for device in devices for address in device.addresses]),
    ):
        for value, number in Counter(values).items():
            if number > 1:
                fields.error(key, f"more than one device has this {what}", f"{key}: {value}")
    reading.devices = frozenset(device.name for device in devices) | ({UNNAMED} if devices else frozenset())
    return devices


def _devices(fields: MappingReader, key: str, reading: Reading) -> Iterator[KnownDevice]:
    for node in fields.items(key):
        entry = MappingReader(node, names_of(_KEYS), fields.report)
        entry.require("name", key, "a device has no name")
        if isinstance(node.value, dict) and not {"mac", "host", "user", "addresses"} & node.value.keys():
            fields.report.error(node.line, key, "nothing tells it: expected one of mac, host, user, addresses")
        values = read_rows(_KEYS, entry, reading)
        name = values.get("name", "")
        if name == UNNAMED or not name.isprintable() or len(name) > _LONGEST:
            entry.error(
                "name", f"expected another name than {UNNAMED}, of 1 to {_LONGEST} characters that can be shown"
            )
        elif name:
            yield KnownDevice(**values)


def _schema() -> dict[str, object]:
    ways = [{"required": [name]} for name in ("mac", "host", "user", "addresses")]
    return {"$name": "devices", **list_of(schema_of_rows(_KEYS, anyOf=ways), maxItems=_MOST)}


DEVICES = Type(_read, _schema, _KEYS)
