"""What each proxy says of itself, where all proxies keep what is unblocked; and what is wrong with whom.

A proxy writes its row anew every half minute, and at once when something about it changes. It removes the row when it
ends as it should; what is left of one that was killed goes after a day. There is nothing about requests.

>>> proxies = ("x:1", "a"), ("x:2", "b"), ("x:3", "a")
>>> records = [ProxyRecord(name, 100.0, policy_digest=policy) for name, policy in proxies]
>>> troubles(records, now=101.0)
{'x:1': (), 'x:2': ('another policy than the others: b, and not a',), 'x:3': ()}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hushlist.core.system.files import state_folder
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.store import open_store

#: seconds between two signs of life
BEAT = 30.0
#: seconds after the last one in which a proxy may still run: clocks of machines may be a minute apart
GONE = BEAT + 60
#: seconds by which a list may have been asked for longer ago than the same elsewhere
STALE = 86400.0
#: rows that are kept, and for how many seconds after the last sign of life
MOST_PROXIES, KEPT = 1000, 86400.0
#: characters of a digest that are shown
SHOWN = 12
#: of what a row says: characters of a text, and numbers; no browser can tell a later date
_LONGEST_TEXT, _MOST = 1000, 8 * 10**12


class ProxyRecord(NamedTuple):
    """One proxy; times are in seconds since 1970."""

    #: the machine's name, and the port on which the proxy listens; and its number among workers
    name: str
    #: its last sign of life
    at: float
    started: float = 0.0
    #: of Hushlist
    version: str = ""
    #: the SHA-256 of the policy file, and a digest of all that the index is made of; empty without a policy
    policy_digest: str = ""
    index_digest: str = ""
    mode: str = ""
    rules: int = 0
    #: when the policy was last read, and how old the oldest of its fetched lists is: its last success; 0: it has none
    read: float = 0.0
    checked: float = 0.0
    #: decided requests since the start, and a second since the record before
    requests: int = 0
    rate: float = 0.0
    #: octets
    memory: int = 0
    #: on which it listens, with spaces between
    ports: str = ""
    #: why it is not ready for traffic, and what last went wrong; empty if nothing
    unready: str = ""
    fault: str = ""


#: what becomes of a damaged file
FLEET = DatabaseKind("hushlist.extensions.fleet", "each proxy writes anew what it is", tables=frozenset({"proxies"}))


def default_path() -> Path:
    """The file of the proxies and the command line."""
    return state_folder() / "fleet.sqlite"


class ProxyRecords:
    """A file or a database; its methods wait for it, and raise ``StoreError`` if it cannot be read or written."""

    def __init__(self, place: Path | PostgresAddress, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self._store, self._clock = open_store(place, FLEET, "fleet"), clock

    def beat(self, record: ProxyRecord) -> None:
        """Write a proxy's row, and remove those that are old or too many."""
        name, at, *_ = record
        with self._store.writing() as database:
            row = (name, at, json.dumps(record._asdict()))
            database.execute(
                "INSERT INTO proxies (name, at, record) VALUES (?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET at = excluded.at, record = excluded.record",
                row,
            )
            now = self._clock()
            database.execute("DELETE FROM proxies WHERE at < ? OR at > ?", (now - KEPT, now + KEPT))
            database.execute(
                "DELETE FROM proxies WHERE name IN (SELECT name FROM proxies ORDER BY at DESC LIMIT ? OFFSET ?)",
                (MOST_PROXIES, MOST_PROXIES),
            )

    def leave(self, name: str, at: float) -> None:
        """Remove a proxy's row, unless another one in its place has written it after a moment."""
        with self._store.writing() as database:
            database.execute("DELETE FROM proxies WHERE name = ? AND at <= ?", (name, at))

    def all(self) -> list[ProxyRecord]:
        """Every proxy, by name."""
        with self._store.reading() as database:
            rows = database.execute("SELECT name, at, record FROM proxies ORDER BY name").fetchall()
        return [_record(*row) for row in rows]

    def close(self) -> None:
        self._store.close()


def _record(name: str, at: float, text: str) -> ProxyRecord:
    """A row, which another version may have written: what cannot be understood is as if it were not there."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        plain = None
    stored: dict[str, Any] = plain if isinstance(plain, dict) else {}
    fields: dict[str, Any] = {
        field: value[:_LONGEST_TEXT] if isinstance(value, str) else value
        for field, default in ProxyRecord._field_defaults.items()
        if _is_like(value := stored.get(field), default)
    }
    return ProxyRecord(name[:_LONGEST_TEXT], at if _is_like(at, 0.0) else 0.0, **fields)


def _is_like(value: object, default: object) -> bool:
    """Whether a value is of a field's type; a number is one that can be told."""
    if isinstance(default, str) or not isinstance(value, int | float):
        return isinstance(default, str) and isinstance(value, str)
    return isinstance(value, int | type(default)) and 0 <= value < _MOST


#: what all proxies should have alike -> what it is called
_COMMON = {"version": "version", "policy_digest": "policy", "index_digest": "index", "mode": "mode"}


def troubles(records: Sequence[ProxyRecord], now: float) -> dict[str, tuple[str, ...]]:
    """What is wrong with each proxy, by its name: it is gone, or differs from most; of as many, from who read last."""
    live = [record for record in records if _is_live(record, now)]
    usual = {field: _usual(live, field) for field in _COMMON}
    newest = max((record.checked for record in live), default=0.0)
    return {record.name: tuple(_troubles_of(record, usual, newest, now)) for record in records}


def _is_live(record: ProxyRecord, now: float) -> bool:
    return now - record.at <= GONE


def _usual(live: Sequence[ProxyRecord], field: str) -> str:
    """What most have; of several that as many have, what the proxy has that read its policy last."""
    counts = Counter(getattr(record, field) for record in live if getattr(record, field))
    newest = {getattr(record, field): record.read for record in sorted(live, key=lambda record: record.read)}
    return max(counts, key=lambda value: (counts[value], newest[value]), default="")


def _troubles_of(record: ProxyRecord, usual: Mapping[str, str], newest: float, now: float) -> Iterable[str]:
    if not _is_live(record, now):
        yield f"gone: no sign of life for {age(now - record.at)}"
        return
    if not record.policy_digest:
        yield "it has no policy that it can use"
    for field, word in _COMMON.items():
        value = getattr(record, field)
        if value and value != usual[field]:
            yield f"another {word} than the others: {value[:SHOWN]}, and not {usual[field][:SHOWN]}"
    if record.checked and newest - record.checked > STALE:
        yield f"a list was last fetched {age(now - record.checked)} ago, and elsewhere {age(now - newest)} ago"
    if record.unready:
        yield f"not ready: {record.unready}"
    if record.fault:
        yield record.fault


def age(seconds: float) -> str:
    """A time for people, in its two largest units.

    >>> age(7), age(3725), age(200000)
    ('7 s', '1 h 2 min', '2 d 7 h')
    """
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"
