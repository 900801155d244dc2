"""Which records are meant: as a test of one record, and as a condition of SQL; both say the same.

A filter that is not given fits everything. What a record has is what decided: tags do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hushlist.journal.record import Fields
from hushlist.url.hrn import Hrn

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_PORT = re.compile(r":[0-9]*\Z")
#: what ``top`` counts by
COUNTED = ("list", "category", "client", "rule", "host", "action")


def host_of(fields: Fields) -> str | None:
    """The host of a record's URL.

    >>> host_of({"url": "http://h.example:81/x"}), host_of({"url": "http://[::1]/"})
    ('h.example', '[::1]')
    """
    found = _HOST.match(str(fields.get("url", "")))
    return _PORT.sub("", found[1]) or None if found else None


def counted(fields: Fields, by: str) -> str | None:
    """What ``top`` counts a record as."""
    value = host_of(fields) if by == "host" else fields.get(by)
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Filters:
    """Everything that is given has to fit."""

    action: str | None = None
    #: any of these: an address and its pseudonym
    clients: Sequence[str] = ()
    users: Sequence[str] = ()
    #: and whatever is subordinate to it
    category: Hrn | None = None
    #: name or title
    list_name: str | None = None
    #: and the hosts below; canonical
    host: str | None = None
    #: as ``time_text`` writes it; from then on, and before then
    since: str | None = None
    until: str | None = None

    def fits(self, fields: Fields) -> bool:
        """Whether a record is meant."""
        host, time = host_of(fields) or "", str(fields.get("time", ""))
        category = str(fields.get("category", ""))
        return all(
            (
                self.action is None or fields.get("action") == self.action,
                not self.clients or fields.get("client") in self.clients,
                not self.users or fields.get("user") in self.users,
                self.category is None or category == str(self.category) or category.startswith(f"{self.category}/"),
                self.list_name is None or self.list_name in (fields.get("list"), fields.get("title")),
                self.host is None or host == self.host or host.endswith(f".{self.host}"),
                self.since is None or time >= self.since,
                self.until is None or time < self.until,
            )
        )

    def condition(self) -> tuple[str, list[str]]:
        """The same for the columns of ``database``, with what its question marks stand for."""
        parts = list(self._parts())
        text = " AND ".join(f"({part})" for part, _ in parts) or "TRUE"
        return text, [value for _, values in parts for value in values]

    def _parts(self) -> Iterator[tuple[str, Sequence[str]]]:
        if self.action is not None:
            yield "action = ?", [self.action]
        for column, names in (("client", self.clients), ("user", self.users)):
            if names:
                yield f"{column} IN ({', '.join('?' * len(names))})", names
        if self.category is not None:
            name = str(self.category)
            yield "category = ? OR substr(category, 1, length(?)) = ?", [name, f"{name}/", f"{name}/"]
        if self.list_name is not None:
            yield "list = ? OR title = ?", [self.list_name, self.list_name]
        if self.host is not None:
            yield "host = ? OR substr(host, -length(?)) = ?", [self.host, f".{self.host}", f".{self.host}"]
        if self.since is not None:
            yield "time >= ?", [self.since]
        if self.until is not None:
            yield "time < ?", [self.until]
