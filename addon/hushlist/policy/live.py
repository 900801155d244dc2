"""The key ``live`` of the policy: who may see the live page, and its figures.

``rules/README.md`` is its reference; ``hushlist.proxy.live`` serves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report
from hushlist.policy.groups import Client, is_in, read_network, read_user

#: the machine itself
LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_KEYS = ("clients", "users")
_SWITCH = ("on", "off")


@dataclass(frozen=True, slots=True)
class Live:
    """Who may see the page; of two conditions, each has to fit."""

    networks: tuple[IPv4Network | IPv6Network, ...] = LOOPBACK
    #: of the proxy; none: nobody has to be one
    users: frozenset[str] = frozenset()

    def allows(self, client: Client) -> bool:
        """Whether a client may see it.

        >>> Live().allows(Client("127.0.0.1")), Live().allows(Client("192.168.1.7")), Live().allows(Client())
        (True, False, False)
        """
        return is_in(client.address, self.networks) and (not self.users or client.user in self.users)


def read_live(node: Node, report: Report) -> Live | None:
    """What ``live`` says: ``on``, ``off`` or a mapping; ``None`` for ``off``, and for what is wrong."""
    if node.value in _SWITCH:
        return Live() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"live: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = Fields(node, _KEYS, report)
    for key in _KEYS:
        listed = fields.node(key)
        if listed is not None and listed.value == []:  # else it would be for everybody
            report.error(listed.line, key, f"expected some {key}, not an empty list")
    networks = tuple(network for item in fields.items("clients") for network in read_network(item, report))
    users = frozenset(user for item in fields.items("users") for user in read_user(item, report))
    return Live(networks if "clients" in fields else LOOPBACK, users)
