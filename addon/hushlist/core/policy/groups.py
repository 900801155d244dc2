"""Groups of clients and their settings. The first group that fits is used; there is always a default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, NamedTuple

from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    NETWORK,
    TEXT,
    Reading,
    any_text,
    choice,
    list_of,
    names_of,
    numbers,
    of_node,
    read_rows,
    read_values,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.policy.pass_through import (
    ALL,
    ALWAYS_DECRYPT,
    DECRYPTION,
    END,
    NOTHING,
    PASS_THROUGH,
    RELAYED,
    AlwaysDecrypted,
    PassThrough,
)
from hushlist.core.policy.scheduled_action import CATEGORIES, DEFAULT_ACTION, ScheduledAction, read_during
from hushlist.core.policy.usable_keys import KeyTable, default_of

if TYPE_CHECKING:
    from hushlist.core.policy.policy_file import Layer
    from hushlist.core.policy.recurrence import Schedule

#: modes, from the strictest to the one that does least
MODES = ("block", "tag", "off")
DEFAULT = "default"
#: the name of every device on the network that the policy does not name
UNNAMED = "unnamed"
#: keys that a policy can have for everybody, and for each group
SETTINGS_KEYS = (
    Key(
        "categories", CATEGORIES
    ).says("""what is done with what lists say of a category, by its `hrn:` name or a short one: see
        [Categories](policy.md#categories)"""),
    Key("default", DEFAULT_ACTION).says("""what is done where no rule decides: `pass` (the default), `block` or `warn`,
        also by a schedule: see [Default](policy.md#default)"""),
    Key("mode", choice(MODES)).says("""`block` (the default); `tag`, the dry run: what would be blocked passes and is
        marked; `off`: nothing is blocked"""),
    Key("pass-through", PASS_THROUGH).says("""hosts that are not decrypted, as apps that pin their certificates need it:
        a list or a mapping: see [Pass-through](network.md#pass-through)"""),
    Key("decrypt", choice(DECRYPTION)).says("""which TLS is decrypted: `all` (the default); `where-needed`: only where
        something inside could change what is done, or to show a page; `without-pages`: the same, but not to show that a
        host is blocked; `never`: see [Decryption](network.md#decryption)"""),
    Key("always-decrypt", ALWAYS_DECRYPT, into="always_decrypted").says("""hosts that `where-needed` decrypts in any
        case: a list or a mapping: see [Decryption](network.md#decryption)"""),
    Key("relayed", choice(RELAYED)).says("""what happens to a WebSocket, a download or a connection that is not
        decrypted, is open, and would be blocked or decrypted if it began now: `end` (the default), it ends; `keep`,
        it goes on: see [Pass-through](network.md#pass-through)"""),
)
#: what a layer or a group may be called
NAME = Type(any_text.read, {"$name": "own-name", "allOf": [TEXT], "not": {"const": DEFAULT}})
DURING = Type(lambda fields, _, reading: read_during(fields, reading.schedules), TEXT)
_USE_KEYS = (
    Key("name", any_text, is_required=True).says("""what the layer is called: any text but `default`, and no other
        layer's"""),
    Key("during", DURING).says("the schedule during which it is asked; without one, it always is"),
)
#: most characters of a user's name
LONGEST_USER = 256
CLIENTS = Type(lambda fields, _, __: tuple(read_networks(fields)), list_of(NETWORK, minItems=1))
USERS = Type(
    lambda fields, _, __: frozenset(read_users(fields)), list_of({"$of": TEXT, "maxLength": LONGEST_USER}, minItems=1)
)
_WHO_KEYS = (
    Key("clients", CLIENTS, into="networks").says("addresses and networks in CIDR notation, IPv4 and IPv6"),
    Key("users", USERS).says("""names that people give to the proxy: mitmproxy's option `proxyauth` asks for them, and
        knows the passwords"""),
    Key("ports", numbers(0, 65535, frozenset, minItems=1)).says("""ports of the proxy that the client uses, in every
        mode but `local`, which has none: mitmproxy listens on several with `--mode regular@8081 --mode
        transparent@8082`"""),
    Key(
        "devices", Type(lambda fields, _, reading: frozenset(_read_devices(fields, reading)), list_of(TEXT, minItems=1))
    ).says("""names of [devices](groups.md#devices); `unnamed` is every device on the network that has none"""),
)


def user_of(name: str) -> str:
    """A user's name, cut to a limit: a client may send any length. No policy can name one that was cut.

    PostgreSQL takes no NUL: with one in a name, what a proxy counts of all its clients could not be stored.
    """
    name = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return name if len(name) <= LONGEST_USER else name[:LONGEST_USER] + "..."


class Client(NamedTuple):
    """The client of a request, as far as it is known."""

    #: its address, without a port; IPv6 without brackets
    address: str = ""
    #: the user's name in the proxy
    user: str | None = None
    #: the proxy's port that it uses
    port: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a temporary unblock can be for."""
        address = address_text(self.address)
        return (address,) if self.user is None else (address, f"user:{self.user}")


NOBODY = Client()
DEFAULT_LAYER = "default"
#: the octets before an IPv4 address within an IPv6 address
_MAPPED_BITS = 96


class LayerUse(NamedTuple):
    """A layer in use, always or while a schedule is on."""

    name: str
    during: Schedule | None = None


def uses_of(layers: Iterable[Layer], group: str = DEFAULT) -> tuple[LayerUse, ...]:
    """All layers that are for a group, in their order, with their own schedules."""
    return tuple(LayerUse(layer.name, layer.during) for layer in layers if not layer.groups or group in layer.groups)


class GroupSettings(NamedTuple):
    """The settings of a group, or of everybody."""

    #: actions of categories, by name
    categories: Mapping[str, ScheduledAction] = NOTHING
    #: the action if no rule decides; ``None``: pass
    default: ScheduledAction | None = None
    mode: str = "block"
    #: hosts that are not decrypted
    pass_through: PassThrough = PassThrough()
    #: which other connections are decrypted: one of ``DECRYPTION``
    decrypt: str = ALL
    #: hosts that are always among them
    always_decrypted: AlwaysDecrypted = AlwaysDecrypted()
    #: what becomes of open connections that are not decrypted, and would be blocked or decrypted now
    relayed: str = END
    #: those of extensions' keys, by the names of the keys that there are
    values: Mapping[str, Any] = NOTHING

    def of(self, key: str) -> Any:
        """The value of an extension's key."""
        return self.values[key] if key in self.values else default_of(key)

    def under(self, option: str) -> GroupSettings:
        """The settings with the effective mode: the group's, or that of mitmproxy's option if it does less.

        >>> GroupSettings(mode="tag").under("block").mode, GroupSettings().under("off").mode
        ('tag', 'off')
        """
        return self if MODES.index(option) <= MODES.index(self.mode) else self._replace(mode=option)

    def behind(self, settings: GroupSettings, fields: MappingReader) -> GroupSettings:
        """A group's own settings, completed by these."""
        before = self.categories
        theirs = {name: timed._replace(behind=before.get(name)) for name, timed in settings.categories.items()}
        others = {row.field: getattr(settings, row.field) for row in SETTINGS_KEYS[1:] if row.name in fields}
        values = {**self.values, **settings.values}
        return self._replace(categories={**before, **theirs}, values=values, **others)


class ClientConditions(NamedTuple):
    """Which clients something is for: those that meet every condition; without any, everybody."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    users: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    devices: frozenset[str] = frozenset()

    def fits(self, client: Client) -> bool:
        """Whether a client meets them; who names devices asks a ``GroupTable``.

        >>> home = ClientConditions(networks=(IPv4Network("192.168.0.0/16"),))
        >>> [home.fits(Client(address)) for address in ("192.168.1.7", "127.0.0.1", "")]
        [True, False, False]
        """
        return (
            (not self.networks or is_in(client.address, self.networks))
            and (not self.users or client.user in self.users)
            and (not self.ports or client.port in self.ports)
        )


class Group(NamedTuple):
    """Clients that are decided alike, and by what."""

    name: str
    layers: tuple[LayerUse, ...]
    settings: GroupSettings
    #: every schedule that rules and lists may name
    timetable: Mapping[str, Schedule] = NOTHING
    #: who they are, as in ``ClientConditions``
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    users: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    devices: frozenset[str] = frozenset()

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Every schedule that it goes by, by its name."""
        timed = (*self.settings.categories.values(), *filter(None, (self.settings.default,)))
        named = (*(use.during for use in self.layers), *(step.during for action in timed for step in action.chain()))
        return {schedule.name: schedule for schedule in named if schedule is not None}


def is_in(text: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a client's address is in one of the networks; false if the text is not an address."""
    try:
        address = _unmapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    return any(address in network for network in networks)


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address in a mapped IPv6 address, as sockets for both families show it; else the address."""
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(1024)
def address_text(client: str) -> str:
    """A client's address in one form, whichever socket it came to; other text is unchanged.

    >>> address_text("::ffff:10.0.0.7"), address_text("2001:DB8::0:1")
    ('10.0.0.7', '2001:db8::1')
    """
    try:
        return str(_unmapped(ip_address(client)))
    except ValueError:
        return client


def network_text(client: str) -> str:
    """A client's address in one form, or its network of IPv6, in which one client has any number of addresses.

    >>> network_text("::ffff:10.0.0.7"), network_text("2001:db8::1:2:3:4%eth0")
    ('10.0.0.7', '2001:db8::/64')
    """
    address = address_text(client).partition("%")[0]
    return str(IPv6Network((address, 64), strict=False)) if ":" in address else address


def read_settings(fields: MappingReader, reading: Reading) -> GroupSettings:
    """The settings in a mapping, for a group or for everybody."""
    values = read_values(reading.table.rows("group"), fields, reading)
    return GroupSettings(**read_rows(SETTINGS_KEYS, fields, reading), values=values)


_LAYERS = Key(
    "layers",
    Type(
        lambda fields, _, reading: _read_layers(fields, "", reading),
        lambda: list_of({"anyOf": [TEXT, schema_of_rows(_USE_KEYS)]}),
        _USE_KEYS,
    ),
).says("""which layers are asked, in which order, each by its name, or as `{name: lists, during: lessons}`; without it,
    all of them are, in the policy's order""")
_GROUP_KEYS = (
    Key("name", NAME, is_required=True).says("""what the group is called: any text but `default`, and no other group's;
        logs and explanations name it"""),
    *_WHO_KEYS,
    _LAYERS,
    *SETTINGS_KEYS,
)


def groups_type(table: KeyTable) -> Type:
    """The type of the groups; ``read_group`` reads one."""
    rows = (*_GROUP_KEYS, *table.rows("group"))
    one_of_who = [{"required": [key]} for key in names_of(_WHO_KEYS)]
    return of_node(lambda node, _: node, lambda: list_of(schema_of_rows(rows, name="group", anyOf=one_of_who)), rows)


def read_group(node: YamlNode, settings: GroupSettings, reading: Reading) -> Group:
    """A group; ``settings`` are everybody's."""
    table, who = reading.table, names_of(_WHO_KEYS)
    keys = names_of((*_GROUP_KEYS, *table.rows("group")))
    fields = MappingReader(node, keys, reading.report, table.left_out("group"))
    name = fields.text("name")
    if name is None and isinstance(node.value, dict):
        reading.report.error(node.line, "group", "it has no name")
    if isinstance(node.value, dict) and not any(key in fields for key in who):
        reading.report.error(node.line, name or "group", f"it says for nobody: expected one of {', '.join(who)}")
    for key in who:
        fields.refuse_empty(key, f"expected some {key}")  # otherwise it would fit everybody
    return Group(
        name=name or "",
        layers=_read_layers(fields, name or "", reading) if "layers" in fields else uses_of(reading.layers, name or ""),
        settings=settings.behind(read_settings(fields, reading), fields),
        timetable=reading.schedules,
        **read_rows(_WHO_KEYS, fields, reading),
    )


def read_users(fields: MappingReader) -> Iterator[str]:
    for node in fields.items("users"):
        if isinstance(node.value, str) and len(node.value) > LONGEST_USER:
            fields.report.error(node.line, "users", f"a name has at most {LONGEST_USER} characters")
        elif isinstance(node.value, str) and node.value.strip():
            yield node.value
        else:
            fields.report.error(node.line, "users", f"expected text, not {node.kind}")


def _read_devices(fields: MappingReader, reading: Reading) -> Iterator[str]:
    for node in fields.items("devices"):
        if isinstance(node.value, str) and node.value in reading.devices:
            yield node.value
        else:
            fields.report.error(node.line, f"devices: {node}", "there is no such device: see the key 'devices'")


def read_networks(fields: MappingReader) -> Iterator[IPv4Network | IPv6Network]:
    for node in fields.items("clients"):
        text = node.value if isinstance(node.value, str) else ""
        try:
            yield _unmapped_network(ip_network(text))
        except ValueError:
            expected = "expected an address such as 192.168.1.7, or a network such as 192.168.1.0/24 or fd00::/64"
            with suppress(ValueError):
                expected = f"some of its bits are behind the prefix: the network is {ip_network(text, strict=False)}"
            fields.report.error(node.line, f"clients: {node}", expected)


def _unmapped_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """The network in the form that clients' addresses are compared with."""
    first = getattr(network.network_address, "ipv4_mapped", None)
    if first is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((int(first), network.prefixlen - _MAPPED_BITS))


def _read_layers(fields: MappingReader, group: str, reading: Reading) -> tuple[LayerUse, ...]:
    """The layers that a group names, in its order."""
    layers = {layer.name: layer for layer in reading.layers}
    uses: list[LayerUse] = []
    for item in fields.items("layers"):
        entry = MappingReader(item.short_for("name"), names_of(_USE_KEYS), fields.report)
        name, during = entry.text("name"), read_during(entry, reading.schedules)
        if name is not None and name not in layers:
            entry.error("name", f"there is no such layer (known: {', '.join(layers)})", name)
        elif name in {use.name for use in uses}:
            entry.error("name", "the layer is named twice", name)
        elif name is not None and group and layers[name].groups and group not in layers[name].groups:
            entry.error("name", f"the layer is for: {', '.join(layers[name].groups)}", name)
        elif name is not None:
            uses.append(LayerUse(name, during or layers[name].during))
    return tuple(uses)
