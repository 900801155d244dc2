"""Which devices the first start offers, by the files of the kernel and of DHCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.extensions.first_start import network_devices
from hushlist.extensions.first_start.network_devices import own_zone, seen_devices
from hushlist.extensions.first_start.questionnaire import Device
from support.policies import write_files
from unit.rows import each_row

ARP = """IP address       HW type     Flags       HW address            Mask     Device
192.168.1.1      0x1         0x2         00:00:5e:00:53:01     *        eth0
192.168.1.22     0x1         0x2         00:00:5e:00:53:22     *        eth0
192.168.1.23     0x1         0x0         00:00:00:00:00:00     *        eth0
192.168.1.30     0x1         0x6         00:00:5e:00:53:30     *        eth0
nonsense
"""
ROUTE = """Iface\tDestination\tGateway\tFlags
eth0\t00000000\t0101A8C0\t0003
eth0\t0001A8C0\t00000000\t0001
"""
DNSMASQ = """1796000000 00:00:5e:00:53:22 192.168.1.22 mias-tablet 01:00:00:5e:00:53:22
1796000000 00:00:5e:00:53:24 192.168.1.24 * *
1796000000 00:00:5e:00:53:25 192.168.1.25 <script> *
duid 00:01
"""
KEA = """address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state
192.168.1.26,00:00:5e:00:53:26,,4000,1796000000,1,0,0,leo-laptop.home.example.,0
"""
PROXY = "192.168.1.10"


@pytest.fixture(autouse=True)
def _own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_devices, "own_address", lambda: PROXY)


def test_devices_are_seen_with_the_names_of_their_leases(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "proc/net/arp": ARP,
            "proc/net/route": ROUTE,
            "var/lib/misc/dnsmasq.leases": DNSMASQ,
            "var/lib/kea/kea-leases4.csv": KEA,
        },
    )
    clients = ["192.168.1.40", "127.0.0.1", "", "fe80::1", PROXY, "nobody"]
    assert seen_devices(clients, root=tmp_path) == [
        Device("192.168.1.22", "mias-tablet"),
        Device("192.168.1.26", "leo-laptop"),
        Device("192.168.1.24"),
        Device("192.168.1.25"),
        Device("192.168.1.30"),
        Device("192.168.1.40"),
    ]


def test_a_machine_without_such_files_has_seen_nobody(tmp_path: Path) -> None:
    assert seen_devices(root=tmp_path) == []


def test_so_many_are_offered_that_a_person_can_read_them(tmp_path: Path) -> None:
    assert len(seen_devices([f"10.0.{high}.{low}" for high in range(4) for low in range(1, 255)], root=tmp_path)) == 32


@each_row(
    ("variable", "files", "zone"),
    [
        (":Asia/Kolkata", {}, "Asia/Kolkata"),
        ("", {"etc/timezone": "Europe/Berlin\n"}, "Europe/Berlin"),
        ("", {}, "UTC"),
        ("", {"etc/timezone": "../../x"}, "UTC"),
    ],
)
def test_the_time_zone_is_the_machine_s(
    tmp_path_factory: pytest.TempPathFactory, variable: str, files: dict[str, str], zone: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", variable)
        assert own_zone(write_files(tmp_path_factory.mktemp("zone"), files)) == zone


def test_the_zone_may_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ")
    write_files(tmp_path, {"usr/share/zoneinfo/America/New_York": "", "etc/x": ""})
    (tmp_path / "etc/localtime").symlink_to(tmp_path / "usr/share/zoneinfo/America/New_York")
    assert own_zone(tmp_path) == "America/New_York"
