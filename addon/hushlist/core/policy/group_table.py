"""Which group a client is in: the time of a look-up hardly depends on how many groups there are, and nothing is kept.

Each group is a bit of a number, the first group the lowest. Sorted ranges of addresses, users, ports and devices each
have the number of all groups that they leave possible; the lowest bit that these numbers share is the client's group.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, collapse_addresses

from hushlist.core.extension import extensions_named, load
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.part_needs import says_something
from hushlist.core.policy.policy_file import Policy

#: from an address and a user to the name of their device; ``None`` if nobody can tell
DeviceNames = Callable[[str, str | None], str | None]

#: addresses as numbers: those of IPv6 come after those of IPv4; what is no address is before them all
_NO_ADDRESS, _IPV6 = -1, 1 << 32
#: the first of the IPv6 addresses that stand for one of IPv4, and the first behind them
_MAPPED, _BEHIND_MAPPED = 0xFFFF << 32, 1 << 48


class GroupTable:
    """Finds the first group that fits a client; the last has to fit everybody.

    >>> from ipaddress import ip_network
    >>> from hushlist.core.policy.groups import GroupSettings
    >>> everybody = Group("default", (), GroupSettings())
    >>> children = Group("children", (), GroupSettings(), networks=(ip_network("10.0.0.0/8"),))
    >>> [GroupTable((children, everybody)).group(Client(address)).name for address in ("10.0.0.7", "::1")]
    ['children', 'default']
    """

    def __init__(self, groups: Sequence[Group], device_of: DeviceNames | None = None) -> None:
        self._groups = groups
        self._device_of = device_of if any(group.devices for group in groups) else None
        self._by_device, self._of_other_devices = _by_value([group.devices for group in groups])
        self._starts, self._by_range = _by_range(groups)
        self._by_user, self._of_other_users = _by_value([group.users for group in groups])
        self._by_port, self._of_other_ports = _by_value([group.ports for group in groups])

    def group(self, client: Client) -> Group:
        """The first group that a client is in."""
        address, user, port = client
        possible = (
            self._by_range[bisect(self._starts, _number_of(address)) - 1]
            & self._by_user.get(user, self._of_other_users)
            & self._by_port.get(port, self._of_other_ports)
        )
        if self._device_of is not None:
            possible &= self._by_device.get(self._device_of(address, user), self._of_other_devices)
        return self._groups[(possible & -possible).bit_length() - 1]


def device_names(policy: Policy) -> DeviceNames | None:
    """What tells the device of an address and a user; ``None`` if the policy names no devices."""
    for extension in extensions_named(policy.extensions):
        if extension.device_names and says_something(policy, extension):
            names: DeviceNames | None = load(extension.device_names)(policy)
            return names
    return None


def _ipv4_number(text: str) -> int:
    """An IPv4 address as a number, in two thirds of ``ipaddress``'s time; ``ValueError`` if it is none."""
    first, second, third, fourth = octets = bytes(map(int, text.split(".")))
    if f"{first}.{second}.{third}.{fourth}" != text:
        raise ValueError(text)
    return int.from_bytes(octets, "big")


def _number_of(address: str) -> int:
    """A client's address as a number, in whichever form its socket has it."""
    text = address.partition("%")[0]
    try:
        if ":" not in text:
            return _ipv4_number(text) if text else _NO_ADDRESS
        number = int(IPv6Address(text))
    except ValueError:
        return _NO_ADDRESS
    return number - _MAPPED if _MAPPED <= number < _BEHIND_MAPPED else number + _IPV6


def _by_range(groups: Sequence[Group]) -> tuple[list[int], list[int]]:
    """The first address of each range, in order, and the groups that are possible from there to the next."""
    changes = defaultdict[int, int](int)
    for place, group in enumerate(groups):
        ipv4 = [network for network in group.networks if isinstance(network, IPv4Network)]
        ipv6 = [network for network in group.networks if isinstance(network, IPv6Network)]
        ranges = [(int(network.network_address), network.num_addresses) for network in collapse_addresses(ipv4)]
        ranges += [
            (int(network.network_address) + _IPV6, network.num_addresses) for network in collapse_addresses(ipv6)
        ]
        for start, length in ranges:
            changes[start] ^= 1 << place
            changes[start + length] ^= 1 << place
    _, possible = _by_value([group.networks for group in groups])
    starts, by_range, shared = [_NO_ADDRESS], [possible], dict[int, int]()
    for start in sorted(changes):
        possible ^= changes[start]
        starts.append(start)
        by_range.append(shared.setdefault(possible, possible))
    return starts, by_range


def _by_value(named: Sequence[Iterable[Hashable]]) -> tuple[dict[Hashable, int], int]:
    """For each value that groups name, the groups that it leaves possible; and those that name none."""
    by_value, of_others = defaultdict[Hashable, int](int), 0
    for place, values in enumerate(named):
        of_others |= 0 if values else 1 << place
        for value in values:
            by_value[value] |= 1 << place
    return {value: possible | of_others for value, possible in by_value.items()}, of_others
