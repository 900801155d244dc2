"""What a policy says of DNS: how a blocked name is answered, where mitmproxy is the one that is asked for names."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report

NXDOMAIN, REFUSED = "nxdomain", "refused"
_EXPECTED = f"expected {NXDOMAIN}, {REFUSED}, an IPv4 address, an IPv6 address, or a list of one of each"


@dataclass(frozen=True, slots=True)
class NameAnswers:
    """How a blocked name is answered: as one that is not there, as refused, or with addresses."""

    refused: bool = False
    ipv4: IPv4Address | None = None
    ipv6: IPv6Address | None = None

    @property
    def has_addresses(self) -> bool:
        """Whether it is answered with addresses."""
        return self.ipv4 is not None or self.ipv6 is not None


def read_name_answers(node: Node, report: Report) -> NameAnswers:
    """A mapping with ``blocked``."""
    fields = Fields(node, ("blocked",), report)
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


def _address(node: Node) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(node.value) if isinstance(node.value, str) else None
    except ValueError:
        return None
    return None if address is None or getattr(address, "scope_id", None) else address
