"""Which device has an address: by neighbours and leases, with doubts, and for the groups of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.group_table import GroupTable, device_names
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.policy.reach import ALL_CLIENTS, Reach
from hushlist.extensions.devices import known_devices
from hushlist.extensions.devices.actions import names_of_devices
from hushlist.extensions.devices.known_devices import NETWORK, Network, network_of
from hushlist.extensions.devices.network_tables import Seen, leases
from hushlist.extensions.journal.log_entry import fields_of
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy, shown_record
from hushlist.extensions.journal.masked_clients import asker_name, device_names_shown, with_device
from support.policies import write_files
from unit.extensions.journal.samples import record
from unit.rows import each_row

MIA, LEO, TV = "00:00:5e:00:53:01", "da:00:5e:00:53:02", "00:00:5e:00:53:03"
POLICY = f"""
devices:
  - {{name: Mia's tablet, mac: {MIA.upper().replace(":", "-")}}}
  - {{name: Leo's phone, host: leos-phone, addresses: [10.0.0.9]}}
  - {{name: Anna's laptop, user: anna}}
groups:
  - {{name: children, devices: [Mia's tablet, Leo's phone]}}
  - {{name: parents, devices: [Anna's laptop]}}
  - {{name: guests, devices: [unnamed]}}
  - {{name: subnet, clients: [10.0.0.0/24]}}
layers: [{{name: own}}]
"""


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    yield
    use(Network())


def use(network: Network) -> None:
    for own in fields(Network):
        setattr(NETWORK, own.name, getattr(network, own.name))


def policy_of(text: str) -> tuple[Policy, list[str]]:
    report = ProblemReport("p")
    policy = read_policy(Path("p"), report, text.encode())
    assert policy is not None
    return policy, [str(one) for one in report.errors]


def finder(policy: Policy) -> Callable[[Client], Group]:
    return GroupTable(policy.all_groups, device_names(policy)).group


@each_row(
    ("neighbours", "leases", "client", "group"),
    [
        ([Seen("10.0.0.7", MIA)], [], Client("10.0.0.7"), "children"),
        ([Seen("10.0.0.7", MIA)], [], Client("::ffff:10.0.0.7"), "children"),
        # every address of a MAC, such as temporary ones of IPv6
        ([Seen("fe80::1", MIA), Seen("2001:db8::7", MIA)], [], Client("2001:db8:0::7"), "children"),
        ([Seen("fe80::1", MIA)], [], Client("fe80::1%eth0"), "children"),
        # the name that a lease has
        ([Seen("10.0.0.8", LEO)], [Seen("10.0.0.8", LEO, "Leos-Phone")], Client("10.0.0.8"), "children"),
        ([], [Seen("10.0.0.8", LEO, "leos-phone")], Client("10.0.0.8"), "children"),
        # an address of its own, unless somebody named has it
        ([], [], Client("10.0.0.9"), "children"),
        ([Seen("10.0.0.9", TV)], [], Client("10.0.0.9"), "children"),
        # a user, wherever
        ([Seen("10.0.0.8", LEO)], [], Client("10.0.0.8", "anna"), "parents"),
        # a device without a name; and one that nobody has seen
        ([Seen("10.0.0.8", TV)], [], Client("10.0.0.8"), "guests"),
        ([], [], Client("10.0.0.8"), "subnet"),
        ([], [], Client("192.0.2.1"), "default"),
        # two that claim an address, or another one than was given it
        ([Seen("10.0.0.7", MIA), Seen("10.0.0.7", TV)], [], Client("10.0.0.7"), "subnet"),
        ([Seen("10.0.0.7", MIA)], [Seen("10.0.0.7", TV)], Client("10.0.0.7"), "subnet"),
        ([Seen("10.0.0.9", MIA), Seen("10.0.0.9", TV)], [], Client("10.0.0.9"), "subnet"),
    ],
)
def test_a_client_is_in_the_group_of_its_device(
    neighbours: list[Seen], leases: list[Seen], client: Client, group: str
) -> None:
    policy, errors = policy_of(POLICY)
    assert errors == []
    use(network_of(neighbours, leases))
    assert finder(policy)(client).name == group


def test_where_nobody_watches_the_first_who_asks_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(known_devices, "neighbours", lambda: looks.append(1) or [Seen("10.0.0.7", MIA)])
    monkeypatch.setattr(known_devices, "leases", list)
    use(Network())
    group = finder(policy_of(POLICY)[0])
    assert [group(Client(one)).name for one in ("10.0.0.7", "10.0.0.8")] == ["children", "subnet"]
    assert len(looks) == 1


def test_who_asks_for_an_address_that_was_not_seen_has_the_network_looked_at() -> None:
    policy, _ = policy_of(POLICY)
    use(network_of([Seen("10.0.0.7", MIA)], []))
    group = finder(policy)
    group(Client("10.0.0.7"))
    assert not NETWORK.is_asked.is_set()
    group(Client("10.0.0.8"))
    assert NETWORK.is_asked.is_set()


@each_row(
    ("device", "why"),
    [
        ("{name: a}", "nothing tells it"),
        (f"{{mac: '{MIA}'}}", "a device has no name"),
        ("{name: a, mac: 1}", "expected a MAC"),
        ("{name: a, mac: '00:00:00:00:00:00'}", "expected a MAC"),
        ("{name: a, addresses: [10.0.0.0/8]}", "expected an address"),
        (f"{{name: unnamed, mac: '{MIA}'}}", "another name than unnamed"),
        (f"{{name: {'a' * 61}, mac: '{MIA}'}}", "1 to 60 characters"),
        (f"{{name: a, mac: '{MIA}'}}, {{name: a, user: b}}", "more than one device has this name"),
        (f"{{name: a, mac: '{MIA}'}}, {{name: b, mac: ['{LEO}', '{MIA}']}}", "more than one device has this MAC"),
        ("{name: a, colour: red}", "unknown key"),
    ],
)
def test_a_device_that_is_written_wrongly_is_told_with_its_line(device: str, why: str) -> None:
    _, errors = policy_of(f"layers: [{{name: own}}]\ndevices: [{device}]\n")
    assert any(why in error and error.startswith("p:2") for error in errors), errors


def test_a_group_names_devices_that_there_are() -> None:
    _, errors = policy_of("layers: [{name: own}]\ngroups:\n- {name: kids, devices: [tablet]}\n")
    assert errors == ["p:3: devices: 'tablet': there is no such device: see the key 'devices'"]


DNSMASQ = f"""1796000000 {MIA} 10.0.0.7 mias-tablet 01:{MIA}
1796000000 {TV} 10.0.0.8 * *
1796000000 {TV} no-address tv *
duid 00:01
"""
KEA6 = f"""address,duid,valid_lifetime,expire,subnet_id,lease_type,prefix_len,fqdn_fwd,fqdn_rev,hostname,hwaddr
2001:db8::7,00:01,4000,1796000000,1,0,128,0,0,mias-tablet.home.,{MIA}
"""
ISC = f"""lease 10.0.0.9 {{
  starts 4 2026/11/26 10:00:00;
  hardware ethernet {LEO.upper()};
  client-hostname "leos-phone";
}}
lease 10.0.0.9 {{
  hardware ethernet {LEO.upper()};
  client-hostname "<b>";
}}
"""


def test_leases_of_each_server_are_read(tmp_path: Path) -> None:
    texts = {
        "var/lib/misc/dnsmasq.leases": DNSMASQ,
        "var/lib/kea/kea-leases6.csv": KEA6,
        "var/lib/dhcp/dhcpd.leases": ISC,
    }
    write_files(tmp_path, texts)
    assert sorted(leases(tmp_path)) == [
        Seen("10.0.0.7", MIA, "mias-tablet"),
        Seen("10.0.0.8", TV, ""),
        Seen("10.0.0.9", LEO, ""),
        Seen("2001:db8::7", MIA, "mias-tablet"),
    ]


def test_the_log_has_the_name_where_it_keeps_clients() -> None:
    policy, _ = policy_of(POLICY)
    use(network_of([Seen("10.0.0.7", MIA), Seen("10.0.0.8", TV)], []))
    names = device_names(policy)
    logged = record("http://h.example/", client="10.0.0.7")
    assert fields_of(logged, Privacy(), names)["device"] == "Mia's tablet"
    assert "device" not in fields_of(record("http://h.example/", client="10.0.0.8"), Privacy(), names)
    for clients in (LoggedClients.PSEUDONYM, LoggedClients.DROP):
        privacy = Privacy(clients=clients)
        assert "device" not in fields_of(logged, privacy, names)
        assert "device" not in shown_record(fields_of(logged, Privacy(), names), privacy)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (lambda names: with_device("10.0.0.7", names), "Mia's tablet (10.0.0.7)"),
        (lambda names: with_device("10.0.0.8", names), "10.0.0.8"),
        (lambda names: with_device("user:anna", names), "Anna's laptop (user:anna)"),
        (lambda names: with_device("user:jo", names, "10.0.0.7"), "Mia's tablet (user:jo)"),
        (lambda names: with_device("group:kids", names), "group:kids"),
        (lambda names: asker_name("10.0.0.7", "jo", names), "Mia's tablet (jo)"),
        (lambda names: asker_name("10.0.0.7", None, names), "Mia's tablet (10.0.0.7)"),
        (lambda names: asker_name(None, None, names), None),
    ],
)
def test_who_is_shown_stands_after_the_name_of_the_device(name: Callable[[Any], str | None], shown: str | None) -> None:
    policy, _ = policy_of(POLICY)
    use(network_of([Seen("10.0.0.7", MIA), Seen("10.0.0.8", TV)], []))
    assert name(device_names_shown(policy, Privacy())) == shown
    hidden = device_names_shown(policy, Privacy(clients=LoggedClients.DROP))
    assert hidden is None
    assert "'s" not in str(name(hidden))


def test_the_page_learns_all_names_where_the_log_keeps_clients() -> None:
    policy, _ = policy_of(POLICY)
    use(network_of([Seen("10.0.0.7", MIA), Seen("fd00::7", MIA), Seen("10.0.0.8", TV)], []))
    named = {one.client: one.name for one in names_of_devices(policy, Privacy(), ALL_CLIENTS)}
    assert named == {
        "10.0.0.7": "Mia's tablet",
        "10.0.0.9": "Leo's phone",
        "fd00::7": "Mia's tablet",
        "user:anna": "Anna's laptop",
    }
    assert names_of_devices(policy, Privacy(clients=LoggedClients.PSEUDONYM), ALL_CLIENTS) == []
    assert names_of_devices(policy_of("layers: []\n")[0], Privacy(), ALL_CLIENTS) == []


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["parents"], {"user:anna"}),
        (["children"], {"10.0.0.7", "10.0.0.9", "fd00::7"}),
        (["children", "parents"], {"10.0.0.7", "10.0.0.9", "fd00::7", "user:anna"}),
        (["subnet"], set()),
        (["gone"], set()),
    ],
)
def test_an_administrator_of_some_groups_learns_the_names_of_their_devices_alone(
    groups: list[str], expected: set[str]
) -> None:
    policy, _ = policy_of(POLICY)
    use(network_of([Seen("10.0.0.7", MIA), Seen("fd00::7", MIA), Seen("10.0.0.8", TV)], []))
    reach = Reach(policy.all_groups, groups, device_names(policy))
    assert {one.client for one in names_of_devices(policy, Privacy(), reach)} == expected
