"""Devices on a network of namespaces, with a real dnsmasq, and the neighbours that the kernel really has."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.namespaces import Machine, why_not
from e2e.origin import PATIENCE
from hushlist.extensions.devices.known_devices import Network, network_of
from hushlist.extensions.devices.network_tables import leases, neighbours

reason = why_not("dnsmasq", "busybox")
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")

MAC, OTHER = "00:00:5e:00:53:22", "02:00:5e:00:53:23"


@pytest.fixture
def machines() -> Iterator[tuple[Machine, Machine]]:
    with Machine() as house, Machine() as tablet:
        house.cable("eth0", tablet, "eth0")
        tablet.run("ip", "link", "set", "eth0", "address", MAC)
        house.address("eth0", "10.9.0.1/24", "fd00:9::1/64")
        yield house, tablet


def seen(house: Machine, root: Path, until: Callable[[Network], bool]) -> Network:
    """What the house knows of its network once it is as expected; or at the end."""
    end = time.monotonic() + PATIENCE
    while True:
        with house.inside():
            found = network_of(neighbours(), leases(root))
        if until(found) or time.monotonic() > end:
            return found
        time.sleep(0.05)


def test_a_device_is_known_by_its_lease_and_by_all_its_addresses(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    house, tablet = machines
    file = tmp_path / "var/lib/misc/dnsmasq.leases"
    file.parent.mkdir(parents=True)
    options = ("--keep-in-foreground", "--port=0", "--conf-file=/dev/null", "--interface=eth0", "--user=root")
    more = (f"--dhcp-leasefile={file}", "--dhcp-range=10.9.0.50,10.9.0.60,1h", "--pid-file=")
    server = subprocess.Popen([*house.command, "/usr/sbin/dnsmasq", *options, *more], stderr=subprocess.PIPE)
    try:
        told = ("-i", "eth0", "-f", "-q", "-n", "-t", "20", "-T", "1", "-s", "/bin/true", "-x", "hostname:mias-tablet")
        tablet.run("busybox", "udhcpc", *told)
        (lease,) = seen(house, tmp_path, lambda network: bool(network.hosts)).hosts.items()
        address, host = lease
        assert host == "mias-tablet"
        temporary = ["fd00:9::7:1", "fd00:9::7:2"]
        tablet.address("eth0", f"{address}/24", *(f"{own}/64" for own in temporary))
        tablet.run("busybox", "ping", "-c", "1", "-W", "5", "10.9.0.1")
        for own in temporary:
            tablet.run("busybox", "ping", "-6", "-c", "1", "-W", "5", "-I", own, "fd00:9::1")
        found = seen(house, tmp_path, lambda network: {address, *temporary} <= network.macs.keys())
        assert {found.macs.get(own) for own in (address, *temporary)} == {MAC}
        assert found.doubts == {}
        # another device takes the address
        tablet.run("ip", "link", "set", "eth0", "address", OTHER)
        tablet.run("busybox", "arping", "-U", "-c", "1", "-I", "eth0", address)
        tablet.run("busybox", "ping", "-c", "1", "-W", "5", "10.9.0.1")
        found = seen(house, tmp_path, lambda network: address in network.doubts)
        assert found.doubts[address] == f"{OTHER} uses it, and {MAC} was given it"
        assert address not in found.macs
    finally:
        server.kill()
        server.communicate()
