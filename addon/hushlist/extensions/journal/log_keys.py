"""The policy's ``log``: whether decisions are written down, and what of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    choice,
    number,
    of_node,
    read_rows,
    schema_of_number,
    some_of,
    switch,
    switch_or,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.extensions.databases.postgres_address import DATABASE, PostgresAddress

_MIB = 1 << 20


class LoggedRequests(StrEnum):
    #: decisions that block, or would; and those that pass only by a temporary override
    BLOCKED = "blocked"
    #: also all others with a rule that fits
    NOTED = "noted"
    #: also those without any rule
    ALL = "all"


class LoggedQueries(StrEnum):
    KEEP = "keep"
    #: what the extensions in use hide, such as searches, is not written
    WITHOUT_SEARCHES = "without-searches"
    DROP = "drop"


class LoggedClients(StrEnum):
    """How the client's address and user name are logged."""

    KEEP = "keep"
    PSEUDONYM = "pseudonym"
    DROP = "drop"


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
    queries: LoggedQueries = LoggedQueries.WITHOUT_SEARCHES
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


_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "KiB": 1 << 10, "MB": 1000**2, "MiB": _MIB, "GB": 1000**3}
_UNITS["GiB"] = 1 << 30
_SIZE = re.compile(r"([0-9]{1,10}) ?([A-Za-z]{0,3})")
_LEAST_SIZE, _MOST_SIZE = 64 << 10, 1 << 30
_MOST_FILES, _MOST_DAYS, _MOST_ROWS = 1000, 3650, 10_000_000
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
    match = _SIZE.fullmatch(text)
    octets = int(match[1]) * _UNITS.get(match[2], 0) if match and match[1].isascii() else 0
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
_LOG_KEYS = (
    Key("what", choice(LoggedRequests)).says("""`blocked`: what is or would be blocked, and what passes by a temporary
        override; `noted` (the default): that, and everything else that a rule fits or that cannot be read; `all`:
        whatever is asked for"""),
    Key("queries", choice(LoggedQueries)).says("""`without-searches` (the default): URLs are written without [what
        was searched](searches.md#in-the-log); `keep`: as they are; `drop`: without their queries"""),
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
        takes some 750 bytes, of the longest URLs some 10 kB; 0: there is no SQLite file"""),
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
