"""The key ``log`` of the policy: what the decision log keeps of each request, where, and for how long.

``rules/README.md`` is its reference; ``hushlist.journal`` writes the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode


class LoggedRequests(StrEnum):
    """Which decisions are logged."""

    #: decisions that block, or would; and those that pass only by a temporary override
    BLOCKED = "blocked"
    #: also all others with a rule that fits
    NOTED = "noted"
    #: also those without any rule
    ALL = "all"


class LoggedQueries(StrEnum):
    """How a URL's query is logged."""

    KEEP = "keep"
    DROP = "drop"


class LoggedClients(StrEnum):
    """How the client's address and user name are logged."""

    KEEP = "keep"
    PSEUDONYM = "pseudonym"
    DROP = "drop"


_KEYS = ("what", "queries", "clients", "folder", "size", "files", "days", "rows", "gzip")
_MIB = 1 << 20
_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "KiB": 1 << 10, "MB": 1000**2, "MiB": _MIB, "GB": 1000**3}
_UNITS["GiB"] = 1 << 30
_SIZE = re.compile(r"([0-9]{1,10}) ?([A-Za-z]{0,3})")
_LEAST_SIZE, _MOST_SIZE = 64 << 10, 1 << 30
_MOST_FILES, _MOST_DAYS, _MOST_ROWS = 1000, 3650, 10_000_000
_SWITCH = ("on", "off")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of the log; immutable."""

    what: LoggedRequests = LoggedRequests.NOTED
    queries: LoggedQueries = LoggedQueries.KEEP
    clients: LoggedClients = LoggedClients.KEEP
    #: ``None``: the platform's folder for state
    folder: Path | None = None
    #: octets of a file of lines, after which the next is begun
    size: int = 10 * _MIB
    #: older files of lines that are kept
    files: int = 14
    #: how long records are kept
    days: int = 30
    #: most records in the SQLite file; 0: no such file
    rows: int = 250_000
    #: whether older files are compressed
    gzip: bool = False


_Word = TypeVar("_Word", bound=str)


def read_log(node: YamlNode, report: ProblemReport) -> LogSettings | None:
    """The settings of ``log``: ``on``, ``off`` or a mapping; ``None`` for ``off``.

    Errors are in the report, and wrong keys are ignored. A folder is relative to the policy's.
    """
    if node.value in _SWITCH:
        return LogSettings() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"log: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = MappingReader(node, _KEYS, report)
    default = LogSettings()
    size, rows = _size(fields, report), fields.number("rows", 0, _MOST_ROWS)
    return LogSettings(
        _choice(fields, "what", LoggedRequests, default.what),
        _choice(fields, "queries", LoggedQueries, default.queries),
        _choice(fields, "clients", LoggedClients, default.clients),
        _folder(fields, report),
        size or default.size,
        fields.number("files", 1, _MOST_FILES) or default.files,
        fields.number("days", 1, _MOST_DAYS) or default.days,
        default.rows if rows is None else rows,
        _choice(fields, "gzip", _SWITCH, "off") == "on",
    )


def _choice(fields: MappingReader, key: str, choices: Iterable[_Word], default: _Word) -> _Word:
    return fields.choice(key, choices) or default


def _folder(fields: MappingReader, report: ProblemReport) -> Path | None:
    text = fields.text("folder")
    if text is None:
        return None
    try:
        return Path(report.source).parent / Path(text).expanduser()
    except RuntimeError as error:
        report.error(fields.line_of("folder"), f"folder: {text}", str(error))
        return None


def _size(fields: MappingReader, report: ProblemReport) -> int | None:
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
    report.error(fields.line_of("size"), f"size: {text}", why)
    return None
