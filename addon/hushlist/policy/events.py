"""The record of what was granted, refused, revoked and locked; every function works within its caller's transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

#: events that are kept; of one client fewer, lest it wash out what others did
MOST_EVENTS = 10_000
MOST_EVENTS_OF_CLIENT = 1000
#: characters of a target that are kept
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    #: seconds since the epoch
    at: float
    #: ``granted``, ``refused``, ``revoked``, ``locked``, ``code made``, ``code withdrawn``
    what: str
    #: ``None`` for everybody
    client: str | None
    scope: str | None
    target: str | None
    #: by which means, and why not where it was refused
    how: str
    #: who did it
    by: str
    #: the grant's, where there is one
    id: int | None = None


_COLUMNS = "at, what, client, scope, target, how, by, grant_id"
_INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of columns
_NEWEST = f"SELECT {_COLUMNS} FROM events ORDER BY id DESC LIMIT ?"  # noqa: S608


def record(database: sqlite3.Connection, event: Event) -> None:
    """Add an event, and forget the oldest where there are too many."""
    target = None if event.target is None else event.target[:_SHOWN]
    row = (event.at, event.what, event.client, event.scope, target, event.how, event.by, event.id)
    database.execute(_INSERT, row)
    database.execute(
        "DELETE FROM events WHERE client = ?1 AND id <="
        " (SELECT id FROM events WHERE client = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        (event.client, MOST_EVENTS_OF_CLIENT),
    )
    database.execute(
        "DELETE FROM events WHERE id <= (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?)", (MOST_EVENTS,)
    )


def newest(database: sqlite3.Connection, limit: int) -> list[Event]:
    """The last events, the newest first."""
    return [Event(*row) for row in database.execute(_NEWEST, (limit,))]
