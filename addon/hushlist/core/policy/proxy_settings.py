"""Keys of the policy for the proxy itself; ``rules`` has their reference.

``on-failure`` says what happens to undecided requests if the filter fails; other failures leave no choice.
``live`` says who may see the live page and its numbers, which ``extensions/dashboard`` serves.
``dns`` says how mitmproxy answers a question for a blocked name.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import ClientConditions
from hushlist.core.policy.key_types import (
    Reading,
    choice,
    list_of,
    mapping,
    names_of,
    of_node,
    read_rows,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Schema, Type


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


class OnFailure(NamedTuple):
    """The causes for which requests pass; for all others they are refused."""

    open: frozenset[FailureCause] = frozenset()

    def passes(self, cause: FailureCause) -> bool:
        """Whether an undecided request passes.

        >>> [one.passes(FailureCause.ERROR) for one in (OnFailure(frozenset({FailureCause.ERROR})), OnFailure())]
        [True, False]
        """
        return cause in self.open


_FAILURE: Schema = {"$name": "failure", "enum": list(_CHOICES)}
_CAUSE = Type(choice(_CHOICES).read, _FAILURE)
_CAUSE_KEYS = (
    Key(_OTHERS, _CAUSE).says("for the causes that are not named: `closed` (the default) or `open`"),
    Key(FailureCause.START, _CAUSE).says("no policy can be used at the start, and until there is one"),
    Key(FailureCause.INDEX, _CAUSE).says("""the compiled rules cannot be read any more, or somebody has changed their
        file"""),
    Key(FailureCause.ERROR, _CAUSE).says("an exception in the filter's own code, or in one that it uses"),
)


def read_on_failure(node: YamlNode, report: ProblemReport) -> OnFailure:
    """The value of ``on-failure``, a word or a mapping of causes to words; a wrong one is read as ``closed``."""
    keys = names_of(_CAUSE_KEYS)
    if isinstance(node.value, dict):
        causes = MappingReader(node, keys, report)
        others = causes.choice(_OTHERS, _CHOICES) or "closed"
        # an invalid word must not mean "as for the other causes"
        said = {
            cause: (causes.choice(cause, _CHOICES) or "closed") if cause in causes else others for cause in FailureCause
        }
    else:
        said = dict.fromkeys(FailureCause, str(node.value))
        if node.value not in _CHOICES:
            why = f"expected {', '.join(_CHOICES)} or a mapping with {', '.join(keys)}"
            report.error(node.line, f"on-failure: {node}", why)
    return OnFailure(frozenset(cause for cause, word in said.items() if word == "open"))


ON_FAILURE = of_node(
    lambda node, reading: read_on_failure(node, reading.report),
    lambda: {"$name": "on-failure", "anyOf": [_FAILURE, schema_of_rows(_CAUSE_KEYS)]},
    _CAUSE_KEYS,
)

#: the clients on the machine itself
LOOPBACK = ClientConditions(networks=(IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")))
NXDOMAIN, REFUSED = "nxdomain", "refused"
_EXPECTED = f"expected {NXDOMAIN}, {REFUSED}, an IPv4 address, an IPv6 address, or a list of one of each"


class NameAnswers(NamedTuple):
    """The answer for a blocked name: "refused", addresses, or else "no such name"."""

    refused: bool = False
    #: at most one of each version
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()


def _blocked(fields: MappingReader, key: str, reading: Reading) -> NameAnswers:
    items, report = fields.node(key).items, reading.report  # type: ignore[union-attr]
    words = [item.value for item in items]
    if words in ([NXDOMAIN], [REFUSED]):
        return NameAnswers(refused=words == [REFUSED])
    addresses: dict[int, IPv4Address | IPv6Address] = {}
    for item in items:
        address = _address(item)
        if address is None:
            report.error(item.line, f"{key}: {item}", _EXPECTED)
        elif address.version in addresses:
            report.error(item.line, f"{key}: {item}", f"an IPv{address.version} address is given twice")
        else:
            addresses[address.version] = address
    fields.refuse_empty(key, _EXPECTED)
    return NameAnswers(addresses=tuple(addresses.values()))


def _address(node: YamlNode) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(node.value) if isinstance(node.value, str) else None
    except ValueError:
        return None
    return None if address is None or getattr(address, "scope_id", None) else address


_ADDRESSES = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*"
_ANSWER: Schema = {"type": "string", "pattern": f"^(?:{NXDOMAIN}|{REFUSED}|{_ADDRESSES})$"}
_SEVERAL = list_of({"type": "string", "pattern": f"^(?:{_ADDRESSES})$"}, minItems=1, maxItems=2)
_NAME_KEYS = (
    Key("blocked", Type(_blocked, {"anyOf": [_ANSWER, _SEVERAL]})).says("""`nxdomain` (the default): there is no such
        name; `refused`; an IPv4 address, an IPv6 address, or a list of one of each"""),
)
NAME_ANSWERS = mapping(_NAME_KEYS, lambda fields, reading: read_rows(_NAME_KEYS, fields, reading).get("blocked"))
