"""The devices that are on the networks of this machine, for administrators."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import Reach
from hushlist.core.routes import Action, ActionError, Limit, Role
from hushlist.extensions.devices.known_devices import NETWORK, KnownDevice, device_names, known_clients
from hushlist.extensions.devices.network_tables import is_random
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy
from hushlist.proxy.runtime import Runtime

#: most addresses that are shown
_MOST = 1000
_HIDDEN = "several use its address"


@dataclass(frozen=True, slots=True)
class SeenDevice:
    """A device that is there, or that the policy names and that is not there."""

    #: the policy's; ``None``: it names it not
    name: str | None
    addresses: list[str]
    mac: str | None
    #: whether the device has made its MAC up, and may have another one elsewhere, or soon
    is_random: bool
    #: what it calls itself
    host: str | None
    #: the group of its first address
    group: str | None
    #: why it is not sure who has the address; then rules for addresses hold
    doubt: str | None


def devices_on_network(policy: Policy, runtime: Runtime, privacy: Privacy) -> list[SeenDevice]:
    """The devices on the networks of this machine.

    Where the log keeps no clients, it is not said which addresses, MACs and names they have.
    """
    if NETWORK.fault is not None:
        raise ActionError(NETWORK.fault)
    name = device_names(policy)
    if name is None:
        raise ActionError("the policy names no devices, so nobody looks for them")
    by_mac: dict[str, list[str]] = {}
    for address, mac in NETWORK.macs.items():
        by_mac.setdefault(mac, []).append(address)
    devices = []
    for mac, addresses in sorted(by_mac.items())[:_MOST]:
        label, addresses = name(addresses[0], None), sorted(addresses)
        host = next((NETWORK.hosts[address] for address in addresses if address in NETWORK.hosts), None)
        named = label if label in {device.name for device in policy.of("devices")} else None
        devices.append(SeenDevice(named, addresses, mac, is_random(mac), host, _group(runtime, addresses[0]), None))
    for address, why in sorted(NETWORK.doubts.items())[:_MOST]:
        devices.append(SeenDevice(None, [address], None, False, None, _group(runtime, address), why))
    if privacy.clients is not LoggedClients.KEEP:
        devices = [
            replace(device, addresses=[], mac=None, host=None, doubt=device.doubt and _HIDDEN) for device in devices
        ]
    here = {device.name for device in devices}
    absent: list[KnownDevice] = [device for device in policy.of("devices") if device.name not in here]
    devices += [
        SeenDevice(device.name, [*device.addresses], None, False, device.host or None, None, None) for device in absent
    ]
    return devices


@dataclass(frozen=True, slots=True)
class NamedClient:
    """An address, or a user as ``user:NAME``, and what the policy calls the device."""

    client: str
    name: str


def names_of_devices(policy: Policy, privacy: Privacy, reach: Reach) -> list[NamedClient]:
    """What the policy calls the devices of addresses and users; of nobody where the log keeps no clients."""
    if privacy.clients is not LoggedClients.KEEP:
        return []
    return [NamedClient(client, name) for client, name in known_clients(policy).items() if reach.has(client)]


def _group(runtime: Runtime, address: str) -> str | None:
    return None if runtime.engine is None else runtime.engine.group(Client(address)).name


ACTIONS = (
    Action("GET", "/network/devices", Role.VIEW, devices_on_network),
    Action("GET", "/network/names", Role.VIEW, names_of_devices, limit=Limit.NARROWED),
)
