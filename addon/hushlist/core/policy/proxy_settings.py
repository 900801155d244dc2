"""Keys of the policy for the proxy itself; ``rules`` has their reference.

``on-failure`` says what happens to undecided requests if the filter fails; other failures leave no choice.
``live`` says who may see the live page and its numbers, which ``extensions/dashboard`` serves.
``dns`` says how mitmproxy answers a question for a blocked name. ``log`` says what the decision log keeps of each
request, where, and for how long; ``hushlist.extensions.journal`` writes it. ``store`` names the database
of several machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import SWITCH, ClientConditions, read_networks, read_switch, read_users
from hushlist.extensions.databases.postgres_address import PostgresAddress, parse_postgres_address


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


def read_on_failure(fields: MappingReader) -> OnFailure:
    """The value of ``on-failure``, a word or a mapping of causes to words; a wrong one is read as ``closed``."""
    node = fields.node("on-failure")
    if node is not None and isinstance(node.value, dict):
        own = MappingReader(node, (_OTHERS, *FailureCause), fields.report)
        others = own.choice(_OTHERS, _CHOICES) or "closed"
        # an invalid word must not mean "as for the other causes"
        said = {cause: (own.choice(cause, _CHOICES) or "closed") if cause in own else others for cause in FailureCause}
    elif node is None or node.value in _CHOICES:
        said = dict.fromkeys(FailureCause, "closed" if node is None else str(node.value))
    else:
        why = f"expected {', '.join(_CHOICES)} or a mapping with {', '.join((_OTHERS, *FailureCause))}"
        fields.report.error(node.line, f"on-failure: {node}", why)
        said = dict.fromkeys(FailureCause, "closed")
    return OnFailure(frozenset(cause for cause, word in said.items() if word == "open"))


#: the clients on the machine itself
LOOPBACK = ClientConditions(networks=(IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")))


def read_live(node: YamlNode, report: ProblemReport) -> ClientConditions | None:
    """The value of ``live``: ``on``, ``off`` or a mapping; ``None`` for ``off`` and for errors."""
    keys = ("clients", "users")
    fields = read_switch(node, "live", keys, report)
    if isinstance(fields, bool):
        return LOOPBACK if fields else None
    for key in keys:
        fields.refuse_empty(key, f"expected some {key}")  # otherwise it would allow everybody
    networks = tuple(read_networks(fields)) or LOOPBACK.networks
    return ClientConditions(networks=networks, users=frozenset(read_users(fields)))


NXDOMAIN, REFUSED = "nxdomain", "refused"
_EXPECTED = f"expected {NXDOMAIN}, {REFUSED}, an IPv4 address, an IPv6 address, or a list of one of each"


@dataclass(frozen=True, slots=True)
class NameAnswers:
    """The answer for a blocked name: "refused", addresses, or else "no such name"."""

    refused: bool = False
    #: at most one of each version
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()


def read_name_answers(node: YamlNode, report: ProblemReport) -> NameAnswers:
    """The value of ``dns``, a mapping with ``blocked``."""
    fields = MappingReader(node, ("blocked",), report)
    blocked = fields.node("blocked")
    if blocked is None:
        return NameAnswers()
    words = [item.value for item in blocked.items]
    if words in ([NXDOMAIN], [REFUSED]):
        return NameAnswers(refused=words == [REFUSED])
    found: dict[int, IPv4Address | IPv6Address] = {}
    for item in blocked.items:
        address = _address(item)
        if address is None:
            report.error(item.line, f"blocked: {item}", _EXPECTED)
        elif address.version in found:
            report.error(item.line, f"blocked: {item}", f"an IPv{address.version} address is given twice")
        else:
            found[address.version] = address
    fields.refuse_empty("blocked", _EXPECTED)
    return NameAnswers(addresses=tuple(found.values()))


def _address(node: YamlNode) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(node.value) if isinstance(node.value, str) else None
    except ValueError:
        return None
    return None if address is None or getattr(address, "scope_id", None) else address


def read_database(fields: MappingReader, key: str) -> PostgresAddress | None:
    """The database that a key names; an error quotes nothing of it, since it may have a password."""
    return fields.converted(key, parse_postgres_address)


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
_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "KiB": 1 << 10, "MB": 1000**2, "MiB": _MIB, "GB": 1000**3}
_UNITS["GiB"] = 1 << 30
_SIZE = re.compile(r"([0-9]{1,10}) ?([A-Za-z]{0,3})")
_LEAST_SIZE, _MOST_SIZE = 64 << 10, 1 << 30
_MOST_FILES, _MOST_DAYS, _MOST_ROWS = 1000, 3650, 10_000_000


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


def read_log(node: YamlNode, report: ProblemReport) -> LogSettings | None:
    """The value of ``log``: ``on``, ``off`` or a mapping; ``None`` for ``off``.

    Errors are in the report, and wrong keys are ignored. A folder is relative to the policy's.
    """
    keys = ("what", "queries", "clients", "folder", "size", "files", "days", "rows", "gzip", "to", "also")
    fields = read_switch(node, "log", keys, report)
    if isinstance(fields, bool):
        return LogSettings() if fields else None
    default = LogSettings()
    size, rows = _size(fields), fields.number("rows", 0, _MOST_ROWS)
    return LogSettings(
        fields.choice("what", LoggedRequests) or default.what,
        fields.choice("queries", LoggedQueries) or default.queries,
        fields.choice("clients", LoggedClients) or default.clients,
        _folder(fields),
        size or default.size,
        fields.number("files", 1, _MOST_FILES) or default.files,
        fields.number("days", 1, _MOST_DAYS) or default.days,
        default.rows if rows is None else rows,
        fields.choice("gzip", SWITCH) == "on",
        read_database(fields, "to"),
        tuple(_copies(fields)),
    )


_MOST_COPIES = 4
_SERVER = re.compile(r"syslog\+(udp|tcp)://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_LOCAL = re.compile(r"syslog:(/[^\0]+)")


def _copies(fields: MappingReader) -> Iterator[LogCopy]:
    node = fields.node("also")
    seen = set[LogCopy]()
    for item in [] if node is None else node.items:
        copy = _copy(str(item.value)) if isinstance(item.value, str) else None
        if copy is None:
            expected = "expected stdout, syslog:/PATH, syslog+udp://HOST:PORT or syslog+tcp://HOST:PORT"
            fields.report.error(item.line, f"also: {item}", expected)
        elif copy in seen:
            fields.report.error(item.line, f"also: {item}", "it is given twice")
        elif len(seen) == _MOST_COPIES:
            fields.report.error(item.line, f"also: {item}", f"there may be {_MOST_COPIES} at most")
        else:
            seen.add(copy)
            yield copy


def _copy(text: str) -> LogCopy | None:
    if text == "stdout":
        return LogCopy(text)
    if local := _LOCAL.fullmatch(text):
        return LogCopy("unix", local[1])
    server = _SERVER.fullmatch(text)
    port = int(server[4]) if server else 0
    return LogCopy(server[1], server[2] or server[3], port) if server and 0 < port < 1 << 16 else None


def _folder(fields: MappingReader) -> Path | None:
    text = fields.text("folder")
    if text is None:
        return None
    try:
        return Path(fields.report.source).parent / Path(text).expanduser()
    except RuntimeError as error:
        fields.error("folder", str(error), f"folder: {text}")
        return None


def _size(fields: MappingReader) -> int | None:
    """Octets of a text such as ``10 MiB``, or ``None``."""
    text = fields.text("size")
    if text is None:
        return None
    found = _SIZE.fullmatch(text)
    octets = int(found[1]) * _UNITS.get(found[2], 0) if found and found[1].isascii() else 0
    if _LEAST_SIZE <= octets <= _MOST_SIZE:
        return octets
    units = ", ".join(filter(None, _UNITS))
    why = f"expected a size from 64 KiB to 1 GiB such as 10 MiB (units: {units})"
    fields.error("size", why, f"size: {text}")
    return None
