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

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report


class What(StrEnum):
    """Which decisions are logged."""

    #: those that block, or would; and what passed only by a temporary override
    BLOCKED = "blocked"
    #: and everything else that a rule fits
    NOTED = "noted"
    #: and what passes without any rule
    ALL = "all"


class Queries(StrEnum):
    """What becomes of a URL's query."""

    KEEP = "keep"
    DROP = "drop"


class Clients(StrEnum):
    """What becomes of the client's address, and of the name of its user."""

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
class Settings:
    """How to keep the log; immutable."""

    what: What = What.NOTED
    queries: Queries = Queries.KEEP
    clients: Clients = Clients.KEEP
    #: ``None``: the platform's folder for state
    folder: Path | None = None
    #: octets that a file of lines may have before the next is begun
    size: int = 10 * _MIB
    #: files of lines that are kept besides the one that is written
    files: int = 14
    #: how long anything is kept
    days: int = 30
    #: records that the SQLite file keeps; 0: there is none
    rows: int = 250_000
    #: whether files of lines that are full are compressed
    gzip: bool = False


_Word = TypeVar("_Word", bound=str)


def read_log(node: Node, report: Report) -> Settings | None:
    """The settings of ``log``: ``on``, ``off`` or a mapping; ``None`` for ``off``.

    What is wrong is in the report, and reads as if it were absent. A folder is relative to the policy's.
    """
    if node.value in _SWITCH:
        return Settings() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"log: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = Fields(node, _KEYS, report)
    default = Settings()
    size, rows = _size(fields, report), fields.number("rows", 0, _MOST_ROWS)
    return Settings(
        _choice(fields, "what", What, default.what),
        _choice(fields, "queries", Queries, default.queries),
        _choice(fields, "clients", Clients, default.clients),
        _folder(fields, report),
        size or default.size,
        fields.number("files", 1, _MOST_FILES) or default.files,
        fields.number("days", 1, _MOST_DAYS) or default.days,
        default.rows if rows is None else rows,
        _choice(fields, "gzip", _SWITCH, "off") == "on",
    )


def _choice(fields: Fields, key: str, choices: Iterable[_Word], default: _Word) -> _Word:
    return fields.choice(key, choices) or default


def _folder(fields: Fields, report: Report) -> Path | None:
    text = fields.text("folder")
    if text is None:
        return None
    try:
        return Path(report.source).parent / Path(text).expanduser()
    except RuntimeError as error:
        report.error(fields.line_of("folder"), f"folder: {text}", str(error))
        return None


def _size(fields: Fields, report: Report) -> int | None:
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
