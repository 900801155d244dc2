"""The table of groups gives the group that a walk over all of them gives."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.policy.group_table import GroupTable
from hushlist.core.policy.groups import NOBODY, Client, ClientConditions, Group, GroupSettings

EVERYBODY = Group("default", (), GroupSettings())
#: few numbers, so that networks overlap, are neighbours, and begin and end where all addresses do
NUMBERS = st.sampled_from([0, 1, 127, 128, 129, 255, 256, (1 << 32) - 1, (1 << 128) - 1, 0xFFFF0A000001])
USERS, PORTS = ("jo", "mo", ""), (0, 8080, 8081)


def _network(number: int, prefix: int, of_ipv6: bool) -> IPv4Network | IPv6Network:
    kind, bits = (IPv6Network, 128) if of_ipv6 else (IPv4Network, 32)
    return kind((number % (1 << bits), prefix * bits // 32), strict=False)


NETWORKS = st.builds(_network, NUMBERS, st.sampled_from([0, 1, 8, 23, 24, 25, 31, 32]), st.booleans())
GROUPS = st.lists(
    st.builds(
        lambda networks, users, ports: Group("g", (), GroupSettings(), networks=networks, users=users, ports=ports),
        st.lists(NETWORKS, max_size=4).map(tuple),
        st.frozensets(st.sampled_from(USERS)),
        st.frozensets(st.sampled_from(PORTS)),
    ),
    max_size=8,
)
ADDRESSES = st.one_of(
    NUMBERS.map(lambda number: str(ip_address(number))),
    NUMBERS.map(lambda number: f"::ffff:{ip_address(number % (1 << 32))}%eth0"),
    NUMBERS.map(lambda number: str(IPv6Network(number)[0]).upper()),
    st.sampled_from(["", "%", "10.0.0.7:80", "[::1]", "010.0.0.1", "7", "1.2.3", "::g", "\0", "\ud800", "٧.1.1.1"]),
)
CLIENTS = st.builds(Client, ADDRESSES, st.sampled_from([None, *USERS, "xy"]), st.sampled_from([None, *PORTS, 9]))


@given(GROUPS, st.lists(CLIENTS, min_size=1, max_size=8))
@example([Group("all", (), GroupSettings(), networks=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))], [NOBODY])
def test_the_first_group_that_fits_is_used(groups: Sequence[Group], clients: Sequence[Client]) -> None:
    groups = [*groups, EVERYBODY]
    table = GroupTable(groups)
    for client in clients:
        assert table.group(client) is next(group for group in groups if ClientConditions(*group[4:]).fits(client))
