"""Whom an administrator of some groups sees and acts on: whoever can be in no other group."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from itertools import product

from hushlist.core.policy.group_table import GroupTable
from hushlist.core.policy.groups import Client, Group, GroupSettings, address_text
from hushlist.core.policy.reach import ALL_CLIENTS, Reach
from unit.rows import each_row

_BLANK = Group("", (), GroupSettings())
REST = _BLANK._replace(name="default")
ROOM = _BLANK._replace(name="room", networks=(ip_network("10.7.2.0/24"), ip_network("fd00:7b::/64")))
DESK = _BLANK._replace(name="desk", networks=(ip_network("10.7.2.9/32"),))
PUPILS = _BLANK._replace(name="pupils", users=frozenset({"jo", "kim"}))
STAFF = _BLANK._replace(name="staff", users=frozenset({"eva"}), networks=(ip_network("10.7.2.0/25"),))
TABLETS = _BLANK._replace(name="tablets", devices=frozenset({"tablet 1", "jo's"}))
DOOR = _BLANK._replace(name="door", ports=frozenset({8081}))

USERS = (None, "jo", "kim", "eva", "nobody")
ADDRESSES = ("10.7.2.5", "10.7.2.9", "10.7.2.200", "::ffff:10.7.2.5", "fd00:7b::5", "10.9.0.1", "")
PORTS = (None, 8080, 8081)


def device_of(address: str, user: str | None) -> str | None:
    return "jo's" if user == "jo" else {"10.7.2.5": "tablet 1", "10.9.0.1": "unnamed"}.get(address_text(address))


@each_row(
    ("groups", "own", "reached"),
    [
        ((ROOM,), {"room"}, {"10.7.2.5", "10.7.2.9", "10.7.2.200", "::ffff:10.7.2.5", "fd00:7b::5"}),
        ((DESK, ROOM), {"room"}, {"10.7.2.5", "10.7.2.200", "::ffff:10.7.2.5", "fd00:7b::5"}),
        ((DESK, ROOM), {"desk"}, {"10.7.2.9"}),
        ((STAFF, ROOM), {"room"}, {"10.7.2.200", "fd00:7b::5"}),
        ((STAFF, ROOM), {"staff"}, set()),
        ((PUPILS, ROOM), {"pupils"}, {"user:jo", "user:kim"}),
        ((ROOM, PUPILS), {"pupils"}, set()),
        ((DOOR, ROOM), {"room"}, set()),
        ((ROOM, DOOR), {"room"}, {"10.7.2.5", "10.7.2.9", "10.7.2.200", "::ffff:10.7.2.5", "fd00:7b::5"}),
        ((TABLETS, ROOM), {"tablets"}, {"10.7.2.5", "::ffff:10.7.2.5", "user:jo"}),
        ((ROOM,), set(), set()),
        ((ROOM,), {"gone", "default"}, set()),
    ],
)
def test_a_name_is_theirs_only_where_it_can_lead_to_no_other_group(
    groups: Sequence[Group], own: set[str], reached: set[str]
) -> None:
    """What is theirs is in their groups by the table that decides, whoever it is, wherever and by which port."""
    everything, names = (*groups, REST), [f"user:{user}" for user in USERS if user] + [own for own in ADDRESSES if own]
    reach = Reach(everything, own, device_of)
    assert {name for name in names if reach.has(name)} == reached
    for address, user, port in product(ADDRESSES, USERS, PORTS):
        client = Client(address, user, port)
        if any(reach.has(name) for name in client.names):
            assert GroupTable(everything, device_of).group(client).name in own, client


def test_everybody_is_everybody_s() -> None:
    assert all(ALL_CLIENTS.has(whom) for whom in (None, "group:any", "user:jo", "10.0.0.1"))
    assert ALL_CLIENTS.has_group("any")
    assert ALL_CLIENTS.has_group(None)
    assert not Reach((ROOM, REST), {"room"}).has(None)
    assert not Reach((ROOM, REST), {"room"}).has_group(None)
    assert Reach((ROOM, DESK, REST), {"desk", "gone", "room"}).groups == ["room", "desk"]
