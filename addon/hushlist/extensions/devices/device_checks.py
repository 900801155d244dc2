"""What ``hushlist doctor`` says of devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hushlist.core.diagnosis import GOOD, UNKNOWN, WARNING, Diagnosis
from hushlist.core.errors import number_of
from hushlist.core.policy.groups import UNNAMED
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.devices.known_devices import NETWORK, device_names, seen_now
from hushlist.extensions.devices.network_tables import leases, unreadable_leases

_ABOUT = "devices"
_OTHERWISE = "name devices by addresses that never change, or by the users of the proxy"


def examine_devices(policy: Policy, _: float, root: Path = Path("/")) -> Iterator[Diagnosis]:
    """Whether devices are seen, how many of them have names, and which leases cannot be read.

    Numbers alone: who is there now may be none of the reader's business.
    """
    name = device_names(policy)
    if name is None:
        return
    for path, why in unreadable_leases(root):
        advice = "let the user who runs the filter read it: without it, 'host' names nobody"
        yield Diagnosis(_ABOUT, WARNING, f"the leases of a DHCP server cannot be read: {path}: {why}", advice)
    NETWORK.take(seen_now(leases(root)))
    if NETWORK.fault is not None:
        yield Diagnosis(_ABOUT, WARNING, NETWORK.fault, _OTHERWISE)
    elif not NETWORK.macs:
        advice = f"if it stands behind a router or in a container, {_OTHERWISE}"
        yield Diagnosis(_ABOUT, UNKNOWN, "this machine sees none on its networks", advice)
    else:
        by_mac = {mac: name(address, None) for address, mac in NETWORK.macs.items()}
        named = sum(label not in (None, UNNAMED) for label in by_mac.values())
        yield Diagnosis(_ABOUT, GOOD, f"seen: {len(by_mac):,}; with a name: {named:,}")
    if doubts := len(NETWORK.doubts):
        advice = "see GET /api/v1/network/devices: until it is sure, groups with 'clients' hold there"
        what = f"of {number_of(doubts, 'address', 'addresses')} it is not sure who has them"
        yield Diagnosis(_ABOUT, WARNING, what, advice)
