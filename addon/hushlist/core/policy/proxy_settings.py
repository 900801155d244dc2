"""Keys of the policy for the proxy itself; ``rules`` has their reference.

``on-failure`` says what happens to undecided requests if the filter fails; other failures leave no choice.
``live`` says who may see the live page and its numbers, which ``extensions/dashboard`` serves.
``dns`` says how mitmproxy answers a question for a blocked name. ``log`` says what the decision log keeps of each
request, where, and for how long; ``hushlist.extensions.journal`` writes it. ``store`` names the database
of several machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

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
from hushlist.extensions.databases.postgres_address import PostgresAddress


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
        own = MappingReader(node, keys, report)
        others = own.choice(_OTHERS, _CHOICES) or "closed"
        # an invalid word must not mean "as for the other causes"
        said = {cause: (own.choice(cause, _CHOICES) or "closed") if cause in own else others for cause in FailureCause}
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


@dataclass(frozen=True, slots=True)
class NameAnswers:
    """The answer for a blocked name: "refused", addresses, or else "no such name"."""

    refused: bool = False
    #: at most one of each version
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()


def _blocked(fields: MappingReader, key: str, reading: Reading) -> NameAnswers:
    items, report = fields.node(key).items, reading.report  # type: ignore[union-attr]
    words = [item.value for item in items]
    if words in ([NXDOMAIN], [REFUSED]):
        return NameAnswers(refused=words == [REFUSED])
    found: dict[int, IPv4Address | IPv6Address] = {}
    for item in items:
        address = _address(item)
        if address is None:
            report.error(item.line, f"{key}: {item}", _EXPECTED)
        elif address.version in found:
            report.error(item.line, f"{key}: {item}", f"an IPv{address.version} address is given twice")
        else:
            found[address.version] = address
    fields.refuse_empty(key, _EXPECTED)
    return NameAnswers(addresses=tuple(found.values()))


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


class LoggedRequests(StrEnum):
    #: decisions that block, or would; and those that pass only by a temporary override
    BLOCKED = "blocked"
    #: also all others with a rule that fits
    NOTED = "noted"
    #: also those without any rule
    ALL = "all"


class LoggedQueries(StrEnum):
    KEEP = "keep"
    DROP = "drop"


class LoggedClients(StrEnum):
    """How the client's address and user name are logged."""

    KEEP = "keep"
    PSEUDONYM = "pseudonym"
    DROP = "drop"


_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LogCopy:
    """Where each record goes besides.

    >>> str(LogCopy("tcp", "::1", 601)), str(LogCopy("unix", "/dev/log"))
    ('syslog+tcp://[::1]:601', 'syslog:/dev/log')
    """

    #: ``stdout``; or syslog by ``unix`` (datagrams), ``udp`` or ``tcp``
    kind: str
    #: the socket's path, or the server's name or address
    place: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.kind in ("stdout", "unix"):
            return "stdout" if self.kind == "stdout" else f"syslog:{self.place}"
        return f"syslog+{self.kind}://{f'[{self.place}]' if ':' in self.place else self.place}:{self.port}"


@dataclass(frozen=True, slots=True)
class LogSettings:
    what: LoggedRequests = LoggedRequests.NOTED
    queries: LoggedQueries = LoggedQueries.KEEP
    clients: LoggedClients = LoggedClients.KEEP
    #: ``None``: the platform's folder for state
    folder: Path | None = None
    #: octets of a file of lines, after which the next is begun
    size: int = 10 * _MIB
    #: older files of lines that are kept
    files: int = 100
    #: how long records are kept
    days: int = 30
    #: most records in the SQLite file; 0: no such file
    rows: int = 2_000_000
    #: whether older files are compressed
    gzip: bool = False
    #: the database that has the records of all machines, in place of files
    to: PostgresAddress | None = None
    #: besides the files
    also: tuple[LogCopy, ...] = ()

    @property
    def place(self) -> PostgresAddress | Path | None:
        """Where records are found; ``None``: in the platform's folder for state."""
        return self.to or self.folder
