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
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import CLIENTS, USERS, ClientConditions
from hushlist.core.policy.keys import (
    TEXT,
    Key,
    Reading,
    Schema,
    Type,
    choice,
    list_of,
    mapping,
    names_of,
    number,
    of_node,
    read_rows,
    schema_of_number,
    schema_of_rows,
    some_of,
    switch,
    switch_or,
)
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
_LIVE_KEYS = (
    Key("clients", CLIENTS, into="networks").says("""addresses and networks that may see it, in place of the machine of
        the proxy itself: `127.0.0.0/8` and `::1`"""),
    Key("users", USERS).says("users of the proxy, of whom the client has to be one besides"),
)


def _live(fields: MappingReader, reading: Reading) -> ClientConditions:
    for key in names_of(_LIVE_KEYS):
        fields.refuse_empty(key, f"expected some {key}")  # otherwise it would allow everybody
    conditions = ClientConditions(**read_rows(_LIVE_KEYS, fields, reading))
    return conditions if conditions.networks else replace(conditions, networks=LOOPBACK.networks)


#: its value is ``None`` for ``off`` and for errors
LIVE = switch_or(_LIVE_KEYS, _live, on=LOOPBACK, name="live")


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


_MOST_COPIES = 4
_SERVER = re.compile(r"syslog\+(udp|tcp)://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_LOCAL = re.compile(r"syslog:(/[^\0]+)")


def _copies(node: YamlNode, report: ProblemReport) -> Iterator[LogCopy]:
    seen = set[LogCopy]()
    for item in node.items:
        copy = _copy(str(item.value)) if isinstance(item.value, str) else None
        if copy is None:
            expected = "expected stdout, syslog:/PATH, syslog+udp://HOST:PORT or syslog+tcp://HOST:PORT"
            report.error(item.line, f"also: {item}", expected)
        elif copy in seen:
            report.error(item.line, f"also: {item}", "it is given twice")
        elif len(seen) == _MOST_COPIES:
            report.error(item.line, f"also: {item}", f"there may be {_MOST_COPIES} at most")
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


def _folder(fields: MappingReader, key: str, _: Reading) -> Path | None:
    text = fields.text(key)
    if text is None:
        return None
    try:
        return Path(fields.report.source).parent / Path(text).expanduser()
    except RuntimeError as error:
        fields.error(key, str(error), f"{key}: {text}")
        return None


def _octets(text: str) -> int | None:
    """Octets of a text such as ``10 MiB``, or ``None``."""
    found = _SIZE.fullmatch(text)
    octets = int(found[1]) * _UNITS.get(found[2], 0) if found and found[1].isascii() else 0
    return octets if _LEAST_SIZE <= octets <= _MOST_SIZE else None


_NAMES = "|".join(filter(None, _UNITS))
_SIZES: Schema = {
    **schema_of_number(_LEAST_SIZE, _MOST_SIZE),
    "pattern": f"^[0-9]{{1,10}} ?(?:{_NAMES})?$",
}
_NO_SIZE = f"expected a size from 64 KiB to 1 GiB such as 10 MiB (units: {_NAMES.replace('|', ', ')})"
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_COPIES: Schema = {
    "$name": "log-copy",
    "type": "string",
    "pattern": r"^(?:stdout|syslog:/[^\u0000]+|syslog\+(?:udp|tcp)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):"
    rf"(?:{_PORT}))$",
}
_ALSO = of_node(
    lambda node, reading: tuple(_copies(node, reading.report)),
    some_of(_COPIES, maxItems=_MOST_COPIES, uniqueItems=True),
)
#: the database that a key names; an error quotes nothing of it, since it may have a password
DATABASE = Type(
    lambda fields, key, _: fields.converted(key, parse_postgres_address),
    {"$name": "database", "type": "string", "pattern": "^postgres(?:ql)?://"},
)
_LOG_KEYS = (
    Key("what", choice(LoggedRequests)).says("""`blocked`: what is or would be blocked, and what passes by a temporary
        override; `noted` (the default): that, and everything else that a rule fits or that cannot be read; `all`:
        whatever is asked for"""),
    Key("queries", choice(LoggedQueries)).says("""`keep` (the default) or `drop`: URLs are written without their
        queries"""),
    Key("clients", choice(LoggedClients)).says("""`keep` (the default); `pseudonym`: the same client and the same user
        always have the same name, made with a key, the file `pseudonyms.key` in the user's folder for state; remove it,
        and new names are made at the next start; `drop`: neither address nor user is written"""),
    Key("folder", Type(_folder, TEXT)).says("""where the log is, relative to the policy's folder; without it, in the
        user's folder for state"""),
    Key("size", Type(lambda fields, key, _: fields.converted(key, _octets, _NO_SIZE), _SIZES)).says("""when the next
        file of lines is begun, from `64 KiB` to `1 GiB` (default: `10 MiB`); each is also begun after some days"""),
    Key("files", number(1, _MOST_FILES)).says("""how many files are kept besides the one that is written, 1 to 1000
        (default: 100)"""),
    Key("days", number(1, _MOST_DAYS)).says("""how long records are kept, 1 to 3650 (default: 30); a file of lines is
        removed as a whole, when its last line is that old"""),
    Key("rows", number(0, _MOST_ROWS)).says("""how many records SQLite keeps, up to 10000000 (default: 2000000); each
        takes some 750 octets, of the longest URLs some 10 kB; 0: there is no SQLite file"""),
    Key("gzip", switch).says("`on`: files that are full are compressed; `off` (the default)"),
    Key("to", DATABASE).says("""the database that has the records of several machines, in place of the files: a
        `postgresql://` address: see [The log](fleet.md#the-log)"""),
    Key("also", _ALSO).says("""one place, or up to four, that get each record besides: `stdout`, `syslog:/PATH`,
        `syslog+udp://HOST:PORT` or `syslog+tcp://HOST:PORT`: see [Copies](log.md#copies)"""),
)
#: its value is ``None`` for ``off``; wrong keys are ignored, and a folder is relative to the policy's
LOG = switch_or(
    _LOG_KEYS,
    lambda fields, reading: LogSettings(**read_rows(_LOG_KEYS, fields, reading)),
    on=LogSettings(),
    name="log",
)
