"""Groups: who asks, and what holds for them. The first group that fits is used; there is always a default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report
from hushlist.policy.pass_through import PassThrough, ReadFile, read_pass_through
from hushlist.policy.safe_search import read_safe_search
from hushlist.policy.schedule import Schedule
from hushlist.policy.timed import DEFAULT_ACTIONS, Timed, read_categories, read_during, read_timed
from hushlist.policy.unblocking import Unblocking, read_unblocking

#: each does less than the one before it
MODES = ("block", "tag", "off")
DEFAULT = "default"
#: what may be said for everybody, and for each group
SETTINGS_KEYS = ("categories", "default", "mode", "safe-search", "unblock", "pass-through")
_WHO_KEYS = ("clients", "users", "ports")
_GROUP_KEYS = ("name", *_WHO_KEYS, "layers", *SETTINGS_KEYS)


class Client(NamedTuple):
    """Who asks, as far as it is known."""

    #: without a port, IPv6 without brackets
    address: str = ""
    #: the user of the proxy
    user: str | None = None
    #: the port on which the proxy was asked
    port: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What a temporary unblock may be for."""
        address = _same_address(self.address)
        return (address,) if self.user is None else (address, f"user:{self.user}")


NOBODY = Client()
#: of an IPv4 address within an IPv6 address, those before
_MAPPED_BITS = 96


class LayerUse(NamedTuple):
    """A layer that is asked, always or while a schedule is on."""

    name: str
    during: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a group, or for everybody."""

    #: what is said of categories, by name
    categories: Mapping[str, Timed] = field(default_factory=dict)
    #: what is done where no rule decides; ``None``: it passes
    default: Timed | None = None
    mode: str = "block"
    #: service -> level
    safe_search: Mapping[str, str] = field(default_factory=dict)
    #: what block pages offer; ``None``: nothing
    unblocking: Unblocking | None = None
    #: what is not decrypted
    pass_through: PassThrough = PassThrough()  # noqa: RUF009  it is immutable

    def mode_under(self, option: str) -> str:
        """The mode that holds where mitmproxy's option says one too: of both, the one that does less.

        >>> Settings(mode="tag").mode_under("block"), Settings().mode_under("off")
        ('tag', 'off')
        """
        return option if self.mode == "block" else max(self.mode, option, key=MODES.index)

    def behind(self, own: Settings, given: Fields) -> Settings:
        """A group's own settings, completed by these."""
        before = self.categories
        theirs = {name: replace(timed, behind=before.get(name)) for name, timed in own.categories.items()}
        return Settings(
            categories={**before, **theirs},
            default=own.default if "default" in given else self.default,
            mode=own.mode if "mode" in given else self.mode,
            safe_search=own.safe_search if "safe-search" in given else self.safe_search,
            unblocking=own.unblocking if "unblock" in given else self.unblocking,
            pass_through=own.pass_through if "pass-through" in given else self.pass_through,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Some clients, and what holds for them; of several conditions, each has to fit."""

    name: str
    layers: tuple[LayerUse, ...]
    settings: Settings
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    users: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    def fits(self, client: Client) -> bool:
        """Whether a client is in it; a group without conditions fits everybody."""
        return (
            (not self.networks or is_in(client.address, self.networks))
            and (not self.users or client.user in self.users)
            and (not self.ports or client.port in self.ports)
        )


def is_in(text: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a client's address is in one of the networks; what is no address is in none."""
    try:
        address = _unmapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    return any(address in network for network in networks)


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address where a client of a socket for both families has one."""
    return getattr(address, "ipv4_mapped", None) or address


def _same_address(text: str) -> str:
    """A client's address as an administrator writes it, whatever socket it came to."""
    try:
        return str(_unmapped(ip_address(text)))
    except ValueError:
        return text


def group_of(groups: Sequence[Group], client: Client) -> Group:
    """The first group that a client is in; the last fits everybody."""
    return next(group for group in groups if group.fits(client))


def read_settings(fields: Fields, schedules: Mapping[str, Schedule], report: Report, read_file: ReadFile) -> Settings:
    """What a mapping says for a group, or for everybody."""
    keys = ("default", "safe-search", "unblock", "pass-through")
    default, search, unblock, passed = (fields.node(key) for key in keys)
    return Settings(
        categories=read_categories(fields, schedules, report),
        default=None if default is None else read_timed(default, "default", DEFAULT_ACTIONS, schedules, report),
        mode=fields.choice("mode", MODES) or "block",
        safe_search={} if search is None else read_safe_search(search, report),
        unblocking=None if unblock is None else read_unblocking(unblock, report),
        pass_through=PassThrough() if passed is None else read_pass_through(passed, report, read_file),
    )


def read_group(
    node: Node,
    layers: Sequence[LayerUse],
    settings: Settings,
    schedules: Mapping[str, Schedule],
    report: Report,
    read_file: ReadFile,
) -> Group:
    """A group, where ``layers`` and ``settings`` are everybody's."""
    fields = Fields(node, _GROUP_KEYS, report)
    name = fields.text("name")
    if name is None and isinstance(node.value, dict):
        report.error(node.line, "group", "it has no name")
    if isinstance(node.value, dict) and not any(key in fields for key in _WHO_KEYS):
        report.error(node.line, name or "group", f"it says for nobody: expected one of {', '.join(_WHO_KEYS)}")
    for key in _WHO_KEYS:
        node_of_key = fields.node(key)
        if node_of_key is not None and node_of_key.value == []:  # else it would fit everybody
            report.error(node_of_key.line, key, f"expected some {key}, not an empty list")
    own = read_settings(fields, schedules, report, read_file)
    return Group(
        name=name or "",
        layers=tuple(_read_layers(fields, layers, schedules, report)) if "layers" in fields else tuple(layers),
        settings=settings.behind(own, fields),
        networks=tuple(network for item in fields.items("clients") for network in read_network(item, report)),
        users=frozenset(user for item in fields.items("users") for user in read_user(item, report)),
        ports=frozenset(fields.numbers("ports", 65535)),
    )


def read_user(node: Node, report: Report) -> list[str]:
    """The name of a user; none, where it is wrong, which is in the report."""
    if isinstance(node.value, str) and node.value.strip():
        return [node.value]
    report.error(node.line, "users", f"expected text, not {node.kind}")
    return []


def read_network(node: Node, report: Report) -> list[IPv4Network | IPv6Network]:
    """The network of clients; none, where it is wrong, which is in the report."""
    text = node.value if isinstance(node.value, str) else ""
    try:
        return [_unmapped_network(ip_network(text))]
    except ValueError:
        expected = "expected an address such as 192.168.1.7, or a network such as 192.168.1.0/24 or fd00::/64"
        with suppress(ValueError):
            expected = f"some of its bits are behind the prefix: the network is {ip_network(text, strict=False)}"
        report.error(node.line, f"clients: {node}", expected)
        return []


def _unmapped_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """The network as clients are compared with it."""
    first = getattr(network.network_address, "ipv4_mapped", None)
    if first is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((int(first), network.prefixlen - _MAPPED_BITS))


def _read_layers(
    fields: Fields, layers: Sequence[LayerUse], schedules: Mapping[str, Schedule], report: Report
) -> list[LayerUse]:
    """The layers that a group names, in its order."""
    known = {layer.name: layer for layer in layers}
    found: list[LayerUse] = []
    for item in fields.items("layers"):
        entry = Node(item.line, {"name": item}) if isinstance(item.value, str) else item
        own = Fields(entry, ("name", "during"), report)
        name = own.text("name")
        during = read_during(own, schedules, report)
        if name is not None and name not in known:
            report.error(own.line_of("name"), name, f"there is no such layer (known: {', '.join(known)})")
        elif name in {use.name for use in found}:
            report.error(own.line_of("name"), name, "the layer is named twice")
        elif name is not None:
            found.append(LayerUse(name, during or known[name].during))
    return found
