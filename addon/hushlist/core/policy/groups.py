"""Groups of clients and their settings. The first group that fits is used; there is always a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.pass_through import (
    ALL,
    DECRYPTION,
    END,
    RELAYED,
    AlwaysDecrypted,
    PassThrough,
    ReadFile,
    read_always_decrypted,
    read_pass_through,
)
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.schedule import (
    DEFAULT_ACTIONS,
    ScheduledAction,
    read_categories,
    read_during,
    read_scheduled_action,
)
from hushlist.extensions.quotas.quotas import Quota, read_quotas
from hushlist.extensions.safe_search.safe_search import read_safe_search
from hushlist.extensions.unblock import SCOPES

#: modes, from the strictest to the one that does least
MODES = ("block", "tag", "off")
DEFAULT = "default"
#: key of a group or of the policy -> field of its settings, of which a group's own replaces everybody's
_FIELDS = {
    "default": "default",
    "mode": "mode",
    "safe-search": "safe_search",
    "unblock": "unblocking",
    "pass-through": "pass_through",
    "decrypt": "decrypt",
    "always-decrypt": "always_decrypted",
    "relayed": "relayed",
    "quotas": "quotas",
}
#: keys that a policy can have for everybody, and for each group
SETTINGS_KEYS = ("categories", *_FIELDS)
_WHO_KEYS = ("clients", "users", "ports")
_GROUP_KEYS = ("name", *_WHO_KEYS, "layers", *SETTINGS_KEYS)


#: most characters of a user's name
LONGEST_USER = 256


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


#: most minutes of an unblock by a block page; a longer one is for the command line
MOST_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class UnblockSettings:
    #: as ``hushlist override passphrase`` prints it; ``None``: no passphrase
    passphrase: str | None = None
    #: whether single-use codes are accepted
    codes: bool = True
    #: scopes that can be unblocked; the first is the default
    scopes: tuple[str, ...] = ("host", "url")
    minutes: tuple[int, ...] = (15, 60)
    #: whether a person can ask for access, which somebody else then grants or declines
    ask: bool = False
    #: whether those who answer see the asker's address and user, whatever the log may have
    names_asker: bool = False


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group, or of everybody."""

    #: actions of categories, by name
    categories: Mapping[str, ScheduledAction] = field(default_factory=dict)
    #: the action if no rule decides; ``None``: pass
    default: ScheduledAction | None = None
    mode: str = "block"
    #: service -> level
    safe_search: Mapping[str, str] = field(default_factory=dict)
    #: what block pages offer; ``None``: nothing
    unblocking: UnblockSettings | None = None
    #: hosts that are not decrypted
    pass_through: PassThrough = PassThrough()  # noqa: RUF009  it is immutable
    #: which other connections are decrypted: one of ``DECRYPTION``
    decrypt: str = ALL
    #: hosts that are always among them
    always_decrypted: AlwaysDecrypted = AlwaysDecrypted()  # noqa: RUF009  it is immutable
    #: what becomes of open connections that are not decrypted, and would be blocked or decrypted now
    relayed: str = END
    #: how long categories may be used
    quotas: tuple[Quota, ...] = ()

    def under(self, option: str) -> GroupSettings:
        """The settings with the effective mode: the group's, or that of mitmproxy's option if it does less.

        >>> GroupSettings(mode="tag").under("block").mode, GroupSettings().under("off").mode
        ('tag', 'off')
        """
        if option in (MODES[0], self.mode):
            return self
        return self if MODES.index(option) <= MODES.index(self.mode) else replace(self, mode=option)

    def behind(self, own: GroupSettings, given: MappingReader) -> GroupSettings:
        """A group's own settings, completed by these."""
        before = self.categories
        theirs = {name: replace(timed, behind=before.get(name)) for name, timed in own.categories.items()}
        others = {field: getattr(own, field) for key, field in _FIELDS.items() if key in given}
        return replace(self, categories={**before, **theirs}, **others)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConditions:
    """Which clients something is for: those that meet every condition; without any, everybody."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    users: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    def fits(self, client: Client) -> bool:
        """Whether a client meets them.

        >>> home = ClientConditions(networks=(IPv4Network("192.168.0.0/16"),))
        >>> [home.fits(Client(address)) for address in ("192.168.1.7", "127.0.0.1", "")]
        [True, False, False]
        """
        return (
            (not self.networks or is_in(client.address, self.networks))
            and (not self.users or client.user in self.users)
            and (not self.ports or client.port in self.ports)
        )


@dataclass(frozen=True, slots=True)
class Group(ClientConditions):
    name: str
    layers: tuple[LayerUse, ...]
    settings: GroupSettings

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Every schedule that it goes by, by its name."""
        timed = (*self.settings.categories.values(), *filter(None, (self.settings.default,)))
        given = (*(use.during for use in self.layers), *(one.during for action in timed for one in action.chain()))
        return {schedule.name: schedule for schedule in given if schedule is not None}


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


def group_of(groups: Sequence[Group], client: Client) -> Group:
    """The first group that a client is in; the last fits everybody."""
    return next(group for group in groups if group.fits(client))


def read_settings(
    fields: MappingReader,
    schedules: Mapping[str, Schedule],
    zone: tzinfo,
    read_file: ReadFile,
) -> GroupSettings:
    """The settings in a mapping, for a group or for everybody."""
    report = fields.report
    keys = ("default", "safe-search", "unblock", "pass-through", "always-decrypt")
    default, search, unblock, passed, always = (fields.node(key) for key in keys)
    return GroupSettings(
        categories=read_categories(fields, schedules),
        default=None
        if default is None
        else read_scheduled_action(default, "default", DEFAULT_ACTIONS, schedules, report),
        mode=fields.choice("mode", MODES) or "block",
        safe_search={} if search is None else read_safe_search(search, report),
        unblocking=None if unblock is None else read_unblocking(unblock, report),
        pass_through=PassThrough() if passed is None else read_pass_through(passed, report, read_file),
        decrypt=fields.choice("decrypt", DECRYPTION) or ALL,
        always_decrypted=AlwaysDecrypted() if always is None else read_always_decrypted(always, report, read_file),
        relayed=fields.choice("relayed", RELAYED) or END,
        quotas=read_quotas(fields, zone),
    )


SWITCH = ("on", "off")


def read_switch(node: YamlNode, key: str, keys: Sequence[str], report: ProblemReport) -> MappingReader | bool:
    """``on``, ``off`` or a mapping; any other value is an error, and ``off``."""
    if node.value in SWITCH:
        return node.value == "on"
    if isinstance(node.value, dict):
        return MappingReader(node, keys, report)
    report.error(node.line, f"{key}: {node}", f"expected on, off or a mapping with {', '.join(keys)}")
    return False


def read_unblocking(node: YamlNode, report: ProblemReport) -> UnblockSettings | None:
    """The value of ``unblock``: ``off``, ``on`` (codes alone), or a mapping; ``None`` if nothing is offered."""
    fields = read_switch(node, "unblock", ("passphrase", "codes", "scopes", "minutes", "ask"), report)
    if isinstance(fields, bool):
        return UnblockSettings() if fields else None
    passphrase = read_stored_passphrase(fields)
    given: dict[str, Any] = {"passphrase": passphrase, "codes": fields.choice("codes", SWITCH) != "off"}
    given["ask"], given["names_asker"] = _asking(fields, report)
    if "scopes" in fields:
        expected = f"expected some of {', '.join(SCOPES)}"
        scopes = list(fields.items("scopes"))
        for item in scopes:
            if item.value not in SCOPES:
                report.error(item.line, f"scopes: {item}", expected)
        given["scopes"] = tuple(str(item.value) for item in scopes if item.value in SCOPES)
        fields.refuse_empty("scopes", expected)
    if "minutes" in fields:
        given["minutes"] = tuple(fields.numbers("minutes", MOST_MINUTES, least=1))
        fields.refuse_empty("minutes", f"expected numbers from 1 to {MOST_MINUTES}")
    if passphrase is None and not given["codes"] and not given["ask"] and "passphrase" not in fields:
        report.error(node.line, "unblock", "it takes neither a passphrase nor codes, and nobody can ask")
    return UnblockSettings(**given)


def _asking(fields: MappingReader, report: ProblemReport) -> tuple[bool, bool]:
    """The value of ``ask``: ``on``, ``off``, or a mapping, which turns it on; and whether it shows who asks."""
    node = fields.node("ask")
    asking = False if node is None else read_switch(node, "ask", ("name",), report)
    if isinstance(asking, bool):
        return asking, False
    return True, asking.choice("name", ("logged", "shown")) == "shown"


def read_stored_passphrase(fields: MappingReader) -> str | None:
    """The stored form of a passphrase under ``passphrase``, or ``None``."""

    def checked(text: str) -> str:
        from hushlist.extensions.unblock.credentials import parse_stored  # most policies start faster without it

        parse_stored(text)
        return text

    return fields.converted("passphrase", checked)


def read_group(
    node: YamlNode,
    layers: Sequence[LayerUse],
    settings: GroupSettings,
    schedules: Mapping[str, Schedule],
    zone: tzinfo,
    report: ProblemReport,
    read_file: ReadFile,
) -> Group:
    """A group; ``layers`` and ``settings`` are everybody's."""
    fields = MappingReader(node, _GROUP_KEYS, report)
    name = fields.text("name")
    if name is None and isinstance(node.value, dict):
        report.error(node.line, "group", "it has no name")
    if isinstance(node.value, dict) and not any(key in fields for key in _WHO_KEYS):
        report.error(node.line, name or "group", f"it says for nobody: expected one of {', '.join(_WHO_KEYS)}")
    for key in _WHO_KEYS:
        fields.refuse_empty(key, f"expected some {key}")  # otherwise it would fit everybody
    own = read_settings(fields, schedules, zone, read_file)
    return Group(
        name=name or "",
        layers=tuple(_read_layers(fields, layers, schedules)) if "layers" in fields else tuple(layers),
        settings=settings.behind(own, fields),
        networks=tuple(read_networks(fields)),
        users=frozenset(read_users(fields)),
        ports=frozenset(fields.numbers("ports", 65535)),
    )


def read_users(fields: MappingReader) -> Iterator[str]:
    for node in fields.items("users"):
        if isinstance(node.value, str) and len(node.value) > LONGEST_USER:
            fields.report.error(node.line, "users", f"a name has at most {LONGEST_USER} characters")
        elif isinstance(node.value, str) and node.value.strip():
            yield node.value
        else:
            fields.report.error(node.line, "users", f"expected text, not {node.kind}")


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


def _read_layers(
    fields: MappingReader, layers: Sequence[LayerUse], schedules: Mapping[str, Schedule]
) -> list[LayerUse]:
    """The layers that a group names, in its order."""
    known = {layer.name: layer for layer in layers}
    found: list[LayerUse] = []
    for item in fields.items("layers"):
        own = MappingReader(item.short_for("name"), ("name", "during"), fields.report)
        name = own.text("name")
        during = read_during(own, schedules)
        if name is not None and name not in known:
            own.error("name", f"there is no such layer (known: {', '.join(known)})", name)
        elif name in {use.name for use in found}:
            own.error("name", "the layer is named twice", name)
        elif name is not None:
            found.append(LayerUse(name, during or known[name].during))
    return found
