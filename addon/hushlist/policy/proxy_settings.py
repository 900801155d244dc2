"""Keys of the policy for the proxy itself; ``rules/README.md`` is their reference.

``on-failure`` says what happens to undecided requests if the filter fails; other failures leave no choice.
``live`` says who may see the live page and its numbers, which ``hushlist.proxy.dashboard.dashboard_server`` serves.
``dns`` says how mitmproxy answers a question for a blocked name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.policy.groups import Client, is_in, read_network, read_user


class FailureCause(StrEnum):
    """Why a request cannot be decided."""

    #: at the start no policy could be used, and there has been none since
    START = "start"
    #: the index in use cannot be read, or somebody has changed it
    INDEX = "index"
    #: an exception in the filter's own code
    ERROR = "error"


_CHOICES = ("closed", "open")
_OTHERS = "default"


@dataclass(frozen=True, slots=True)
class OnFailure:
    """The causes for which requests pass; for all others they are refused."""

    open: frozenset[FailureCause] = frozenset()

    def passes(self, cause: FailureCause) -> bool:
        """Whether an undecided request passes.

        >>> [one.passes(FailureCause.ERROR) for one in (OnFailure(frozenset({FailureCause.ERROR})), OnFailure())]
        [True, False]
        """
        return cause in self.open


def read_on_failure(fields: MappingReader, report: ProblemReport) -> OnFailure:
    """The value of ``on-failure``, a word or a mapping of causes to words; a wrong one is read as ``closed``."""
    node = fields.node("on-failure")
    if node is not None and isinstance(node.value, dict):
        own = MappingReader(node, (_OTHERS, *FailureCause), report)
        others = own.choice(_OTHERS, _CHOICES) or "closed"
        # an invalid word must not mean "as for the other causes"
        said = {cause: (own.choice(cause, _CHOICES) or "closed") if cause in own else others for cause in FailureCause}
    elif node is None or node.value in _CHOICES:
        said = dict.fromkeys(FailureCause, "closed" if node is None else str(node.value))
    else:
        why = f"expected {', '.join(_CHOICES)} or a mapping with {', '.join((_OTHERS, *FailureCause))}"
        report.error(node.line, f"on-failure: {node}", why)
        said = dict.fromkeys(FailureCause, "closed")
    return OnFailure(frozenset(cause for cause, word in said.items() if word == "open"))


#: the addresses of the machine itself
LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_KEYS = ("clients", "users")
_SWITCH = ("on", "off")


@dataclass(frozen=True, slots=True)
class LivePageSettings:
    """Who may see the page; if both conditions are given, both must be met."""

    networks: tuple[IPv4Network | IPv6Network, ...] = LOOPBACK
    #: users of the proxy; empty: any user, or none
    users: frozenset[str] = frozenset()

    def allows(self, client: Client) -> bool:
        """Whether a client may see the page.

        >>> [LivePageSettings().allows(Client(address)) for address in ("127.0.0.1", "192.168.1.7", "")]
        [True, False, False]
        """
        return is_in(client.address, self.networks) and (not self.users or client.user in self.users)


def read_live(node: YamlNode, report: ProblemReport) -> LivePageSettings | None:
    """The value of ``live``: ``on``, ``off`` or a mapping; ``None`` for ``off`` and for errors."""
    if node.value in _SWITCH:
        return LivePageSettings() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"live: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = MappingReader(node, _KEYS, report)
    for key in _KEYS:
        listed = fields.node(key)
        if listed is not None and listed.value == []:  # otherwise an empty list would allow everybody
            report.error(listed.line, key, f"expected some {key}, not an empty list")
    networks = tuple(network for item in fields.items("clients") for network in read_network(item, report))
    users = frozenset(user for item in fields.items("users") for user in read_user(item, report))
    return LivePageSettings(networks if "clients" in fields else LOOPBACK, users)


NXDOMAIN, REFUSED = "nxdomain", "refused"
_EXPECTED = f"expected {NXDOMAIN}, {REFUSED}, an IPv4 address, an IPv6 address, or a list of one of each"


@dataclass(frozen=True, slots=True)
class NameAnswers:
    """The answer for a blocked name: "no such name", "refused", or addresses."""

    refused: bool = False
    ipv4: IPv4Address | None = None
    ipv6: IPv6Address | None = None

    @property
    def has_addresses(self) -> bool:
        """Whether the answer has addresses."""
        return self.ipv4 is not None or self.ipv6 is not None


def read_name_answers(node: YamlNode, report: ProblemReport) -> NameAnswers:
    """The value of ``dns``, a mapping with ``blocked``."""
    fields = MappingReader(node, ("blocked",), report)
    blocked = fields.node("blocked")
    if blocked is None:
        return NameAnswers()
    items = blocked.value if isinstance(blocked.value, list) else [blocked]
    words = [item.value for item in items]
    if words in ([NXDOMAIN], [REFUSED]):
        return NameAnswers(refused=words == [REFUSED])
    found: dict[int, IPv4Address | IPv6Address] = {}
    for item in items:
        address = _address(item)
        if address is None:
            report.error(item.line, f"blocked: {item}", _EXPECTED)
        elif address.version in found:
            report.error(item.line, f"blocked: {item}", f"an IPv{address.version} address is given twice")
        else:
            found[address.version] = address
    if not items:
        report.error(blocked.line, "blocked", f"{_EXPECTED}, not an empty list")
    ipv4, ipv6 = found.get(4), found.get(6)
    return NameAnswers(
        ipv4=ipv4 if isinstance(ipv4, IPv4Address) else None, ipv6=ipv6 if isinstance(ipv6, IPv6Address) else None
    )


def _address(node: YamlNode) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(node.value) if isinstance(node.value, str) else None
    except ValueError:
        return None
    return None if address is None or getattr(address, "scope_id", None) else address
