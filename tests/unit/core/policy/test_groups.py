"""Who is in which group, and what holds for it."""

from ipaddress import ip_network
from pathlib import Path

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import (
    NOBODY,
    SETTINGS_KEYS,
    Client,
    ClientConditions,
    Group,
    LayerUse,
    read_group,
    read_settings,
)
from hushlist.core.policy.key_types import Reading, names_of
from hushlist.core.policy.policy_file import Layer
from hushlist.core.policy.schedule import read_schedules
from hushlist.core.policy.times import read_timezone
from hushlist.core.policy.usable_keys import table_of
from unit.rows import each_row

LAYERS = ("overrides", "lists")
WHO = "clients, users, ports, devices"

EXPECTED = "expected an address such as 192.168.1.7, or a network such as 192.168.1.0/24 or fd00::/64"
HOST_BITS = "some of its bits are behind the prefix: the network is 10.0.0.0/24"


def group(*networks: str, users: set[str] | None = None, ports: set[int] | None = None) -> ClientConditions:
    found = tuple(map(ip_network, networks))
    named = frozenset(users or ())
    return ClientConditions(networks=found, users=named, ports=frozenset(ports or ()))


@each_row(
    ("one", "client", "fits"),
    [
        (group(), NOBODY, True),
        (group("10.0.0.0/24"), Client("10.0.0.7"), True),
        (group("10.0.0.0/24"), Client("10.0.1.7"), False),
        (group("10.0.0.0/24", "10.0.1.7/32"), Client("10.0.1.7"), True),  # of one kind, any
        (group("10.0.0.0/24"), Client("::ffff:10.0.0.7"), True),
        (group("10.0.0.0/24"), Client("::FFFF:a00:7"), True),
        (group("::/0"), Client("::ffff:10.0.0.7"), False),
        (group("fe80::/10"), Client("fe80::1%eth0"), True),
        (group("fe80::/10"), Client("fe80::1"), True),
        (group("0.0.0.0/0", "::/0"), NOBODY, False),
        *(
            (group("0.0.0.0/0", "::/0"), Client(text), False)
            for text in (
                "",
                "%",
                "10.0.0.7:80",
                "[::1]",
                "10.0.0",
                "010.0.0.7",
                "7",
                "x" * 100_000,
                "\ud800",
                "1.2.3.4/8",
            )
        ),
        (group(users={"jo"}), Client("10.0.0.7", "jo"), True),
        (group(users={"jo"}), Client("10.0.0.7", "Jo"), False),
        (group(users={"jo"}), Client("10.0.0.7"), False),
        (group(ports={8080}), Client(port=8080), True),
        (group(ports={8080}), Client(port=8081), False),
        (group(ports={8080}), NOBODY, False),
        # of different kinds, all
        (group("10.0.0.0/24", users={"jo"}, ports={80}), Client("10.0.0.7", "jo", 80), True),
        (group("10.0.0.0/24", users={"jo"}, ports={80}), Client("10.0.1.7", "jo", 80), False),
        (group("10.0.0.0/24", users={"jo"}, ports={80}), Client("10.0.0.7", "al", 80), False),
        (group("10.0.0.0/24", users={"jo"}, ports={80}), Client("10.0.0.7", "jo", 81), False),
    ],
)
def test_conditions_of_different_kinds_must_all_fit_of_one_kind_any(
    one: ClientConditions, client: Client, fits: bool
) -> None:
    assert one.fits(client) is fits


@each_row(
    ("client", "names"),
    [
        (Client("10.0.0.7"), ("10.0.0.7",)),
        (Client("::ffff:10.0.0.7", "jo"), ("10.0.0.7", "user:jo")),  # as an administrator writes it
        (Client("2001:DB8:0::1"), ("2001:db8::1",)),
        (Client("fe80::1%eth0"), ("fe80::1%eth0",)),
        (Client("no address"), ("no address",)),
    ],
)
def test_a_client_goes_by_its_address_and_its_user(client: Client, names: tuple[str, ...]) -> None:
    assert client.names == names


# -- how a policy has them ---------------------------------------------------------------------------------------------


def read(text: str, everybody: str = "{mode: block}") -> tuple[Group, list[str]]:
    report = ProblemReport("p")
    schedules_node = read_document(b"{night: {times: 21:00-06:30}}", report)
    assert schedules_node is not None
    zone = read_timezone(MappingReader(schedules_node, ("night", "timezone"), report))
    schedules = read_schedules(schedules_node, zone, report)
    for_all, node = read_document(everybody.encode(), report), read_document(text.encode(), report)
    assert for_all is not None
    assert node is not None
    reading = Reading(Path("p"), report)
    reading.schedules, reading.layers = schedules, tuple(map(Layer, LAYERS))
    settings = read_settings(
        MappingReader(for_all, names_of((*SETTINGS_KEYS, *reading.table.rows("group"))), report), reading
    )
    found = read_group(node, settings, reading)
    return found, list(map(str, report.errors))


def test_a_group_says_who_is_in_it() -> None:
    found, errors = read("{name: g, clients: [10.0.0.0/24, '2001:db8::1'], users: [jo, al], ports: [8080, 8081]}")
    assert errors == []
    assert found.networks == (ip_network("10.0.0.0/24"), ip_network("2001:db8::1/128"))
    assert (found.users, found.ports) == ({"jo", "al"}, {8080, 8081})
    assert found.layers == tuple(map(LayerUse, LAYERS))


def test_a_network_of_mapped_addresses_is_one_of_ipv4() -> None:
    found, errors = read("{name: g, clients: ['::ffff:10.0.0.0/120']}")
    assert (errors, found.networks) == ([], (ip_network("10.0.0.0/24"),))
    assert ClientConditions(found.networks).fits(Client("::ffff:10.0.0.7"))
    assert ClientConditions(found.networks).fits(Client("10.0.0.7"))


def test_a_group_s_keys_come_before_everybody_s_and_categories_are_merged_by_name() -> None:
    everybody = """
mode: tag
default: block
unblock: on
safe-search: strict
categories: {'hrn://c.example/a': block, 'hrn://c.example/b': warn}
"""
    same, errors = read("{name: g, ports: [1]}", everybody)
    own, more = read(
        "{name: g, ports: [1], mode: block, default: pass, unblock: off, safe-search: off,"
        " categories: {'hrn://C.example/b': tag, 'hrn://c.example/b/c': allow}}",
        everybody,
    )
    assert errors + more == []
    assert same.settings.default is not None
    assert own.settings.default is not None
    assert (same.settings.mode, same.settings.default.action) == ("tag", Action.BLOCK)
    assert same.settings.of("unblock") is not None
    assert set(same.settings.of("safe-search").values()) == {"strict"}
    assert (own.settings.mode, own.settings.default.action, own.settings.of("unblock")) == ("block", Action.PASS, None)
    assert set(own.settings.of("safe-search").values()) <= {"off"}
    assert {name: timed.action for name, timed in own.settings.categories.items()} == {
        "hrn://c.example/a": Action.BLOCK,
        "hrn://c.example/b": Action.TAG,
        "hrn://c.example/b/c": Action.ALLOW,
    }


def test_a_group_has_its_own_layers_in_its_own_order() -> None:
    found, errors = read("{name: g, ports: [1], layers: [{name: lists, during: night}, overrides]}")
    assert errors == []
    assert [(use.name, use.during and use.during.name) for use in found.layers] == [
        ("lists", "night"),
        ("overrides", None),
    ]
    assert read("{name: g, ports: [1], layers: []}")[0].layers == ()


@each_row(
    ("text", "errors"),
    [
        ("{ports: [1]}", ["p:1: group: it has no name"]),
        ("{name: g}", [f"p:1: g: it says for nobody: expected one of {WHO}"]),
        (
            "x",
            [
                f"p:1: 'x': expected a mapping with name, {WHO}, layers, "
                + ", ".join(names_of((*SETTINGS_KEYS, *table_of().rows("group"))))
            ],
        ),
        *(
            (f"{{name: g,\n {key}: []}}", [f"p:2: {key}: expected some {key}, not an empty list"])
            for key in ("clients", "users", "ports")
        ),
        ("{name: g,\n clients: }", ["p:2: clients: expected a list, not nothing"]),
        (
            "{name: g, clients: [10.0.0.1/24]}",
            ["p:1: clients: '10.0.0.1/24': some of its bits are behind the prefix: the network is 10.0.0.0/24"],
        ),
        (
            "{name: g, clients: [pc7]}",
            [f"p:1: clients: 'pc7': {EXPECTED}"],
        ),
        ("{name: g, clients: [[]]}", [f"p:1: clients: a list: {EXPECTED}"]),
        (f"{{name: g, users: [{'u' * 257}]}}", ["p:1: users: a name has at most 256 characters"]),
        ("{name: g, users: ['']}", ["p:1: users: expected text, not nothing"]),
        ("{name: g, ports: [65536]}", ["p:1: ports: '65536': expected a number from 0 to 65535"]),
        ("{name: g, ports: [1], mode: on}", ["p:1: mode: on: expected one of block, tag, off"]),
        (
            "{name: g, ports: [1],\n layers: [nights]}",
            ["p:2: nights: there is no such layer (known: overrides, lists)"],
        ),
        ("{name: g, ports: [1], layers: [lists, lists]}", ["p:1: lists: the layer is named twice"]),
        (
            "{name: g, ports: [1], layers: [{name: lists, during: day}]}",
            ["p:1: day: there is no such schedule (known: night)"],
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(text: str, errors: list[str]) -> None:
    assert read(text)[1] == errors
