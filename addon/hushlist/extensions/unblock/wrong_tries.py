"""Wrong tries limit how often a client, and all clients together, may guess a passphrase or a code.

A passphrase that people choose can be guessed from many addresses, so a hundred tries lock everybody. A code has 60
bits: its wrong tries lock the client alone, else anybody could keep all others from using theirs.

The functions work within the caller's transaction. The number of rows is limited: a lock is deleted a day after its
end, and where there are many rows, the tries of codes are not counted.
"""

from __future__ import annotations

from typing import NamedTuple

from hushlist.core.errors import HushlistError
from hushlist.extensions.databases.sql import SqlConnection

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

#: wrong tries of one client within the time that lock it
MOST_TRIES = 5
WITHIN = 15 * MINUTE
#: seconds; doubled each time up to a day, and deleted a day after its end
FIRST_LOCK = 15 * MINUTE
LONGEST_LOCK = DAY
#: wrong tries of all clients within an hour: many addresses do not help
MOST_TRIES_OF_ALL = 100
#: rows of tries and locks, beyond which wrong tries of codes are not counted: 60 bits need no lock
MOST_ROWS = 10_000


class LockedError(HushlistError):
    """Too many wrong tries; nothing was checked."""

    def __init__(self, client: str, until: float) -> None:
        self.client = client
        #: seconds since the epoch
        self.until = until
        super().__init__(f"{client!r}: too many wrong tries")


class CountedTry(NamedTuple):
    number: int
    client: str
    #: whether it was the last one: the client, or everybody, is locked now
    last: bool
    #: the number by which it counts among those of all, if it does
    of_all: int | None = None


def locks(database: SqlConnection, now: float) -> dict[str | None, float]:
    """Until when each client is locked; under ``None``, until when all are."""
    # A time farther in the future comes from a clock that was set back.
    query = "SELECT client, until FROM locks WHERE until > ? AND until <= ?"
    until: dict[str | None, float] = dict(iter(database.execute(query, (now, now + LONGEST_LOCK))))
    query = "SELECT at FROM tries WHERE client IS NULL AND at > ? AND at <= ? ORDER BY at DESC LIMIT 1 OFFSET ?"
    for (at,) in database.execute(query, (now - HOUR, now + HOUR, MOST_TRIES_OF_ALL - 1)):
        until[None] = at + HOUR
    return until


def check_unlocked(database: SqlConnection, client: str, now: float, *, of_all: bool = True) -> None:
    """Raise ``LockedError`` if the client, or everybody (``of_all``), has no try left."""
    locked = locks(database, now)
    until = max(locked.get(client, now), locked.get(None, now) if of_all else now)
    if until > now:
        raise LockedError(client, until)


def count_try(database: SqlConnection, client: str, now: float, *, of_all: bool = True) -> CountedTry:
    """Count a try as wrong; ``of_all``: also among those of all clients, where it stays whatever the client does."""
    database.execute("DELETE FROM tries WHERE at <= ? OR at > ?", (now - HOUR, now + HOUR))
    database.execute("DELETE FROM locks WHERE until <= ? OR until > ?", (now - DAY, now + LONGEST_LOCK))
    if not of_all:
        query = "SELECT (SELECT count(*) FROM tries) + (SELECT count(*) FROM locks)"
        (rows,) = database.execute(query).fetchone()
        if rows >= MOST_ROWS:
            return CountedTry(0, client, last=False)
    insert = "INSERT INTO tries (at, client) VALUES (?, ?) RETURNING id"
    (number,) = database.execute(insert, (now, client)).fetchone()
    among_all = database.execute(insert, (now, None)).fetchone()[0] if of_all else None
    query = "SELECT count(*) FROM tries WHERE client = ? AND at > ?"
    (wrong,) = database.execute(query, (client, now - WITHIN)).fetchone()
    if wrong >= MOST_TRIES:
        _lock(database, client, now)
    is_last = wrong >= MOST_TRIES or (of_all and None in locks(database, now))
    return CountedTry(number, client, is_last, among_all)


def _lock(database: SqlConnection, client: str, now: float) -> None:
    before = database.execute("SELECT seconds FROM locks WHERE client = ?", (client,)).fetchone()
    seconds = FIRST_LOCK if before is None else min(2 * before[0], LONGEST_LOCK)
    database.execute(
        "INSERT INTO locks VALUES (?, ?, ?)"
        " ON CONFLICT (client) DO UPDATE SET until = excluded.until, seconds = excluded.seconds",
        (client, now + seconds, seconds),
    )
    _forget(database, client)


def take_back(database: SqlConnection, counted: CountedTry) -> None:
    """Undo the count of a try that was right."""
    database.execute("DELETE FROM tries WHERE id = ? OR id = ?", (counted.number, counted.of_all or counted.number))
    forgive(database, counted.client)


def forgive(database: SqlConnection, client: str) -> None:
    """After a right try, the client's count starts again."""
    database.execute("DELETE FROM locks WHERE client = ?", (client,))
    _forget(database, client)


def _forget(database: SqlConnection, client: str) -> None:
    """Begin a client's count anew. Among those of all, its tries stay: otherwise one right code, or the passphrase of
    one group, would buy any number of guesses at another."""
    database.execute("DELETE FROM tries WHERE client = ?", (client,))
