"""Events in a store: grants, refusals, revocations and locks; the functions work within the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass

from hushlist.extensions.databases.sql import SqlConnection, keep_newest

#: events that are kept; fewer of one client, so that it cannot push out those of others
MOST_EVENTS = 10_000
MOST_EVENTS_OF_CLIENT = 1000
#: characters of a target that are kept
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class GrantEvent:
    #: seconds since the epoch
    at: float
    #: ``granted``, ``refused``, ``revoked``, ``locked``, ``code made``, ``code withdrawn``, ``blocked``,
    #: ``block ended``, ``extended``, ``taken back``
    what: str
    #: ``None`` for everybody
    client: str | None
    scope: str | None
    target: str | None
    #: the means; for a refusal, the reason
    how: str
    #: the person or client that did it
    by: str
    #: the grant's number, if there is one
    id: int | None = None


_COLUMNS = "at, what, client, scope, target, how, by, grant_id"
_INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of columns
#: what ``GrantEvent`` is made of
NEWEST_EVENTS = f"SELECT {_COLUMNS} FROM events ORDER BY id DESC LIMIT ?"  # noqa: S608


def record_event(database: SqlConnection, event: GrantEvent) -> None:
    """Add an event, and remove the oldest if there are too many."""
    target = None if event.target is None else event.target[:_SHOWN]
    row = (event.at, event.what, event.client, event.scope, target, event.how, event.by, event.id)
    database.execute(_INSERT, row)
    keep_newest(database, "events", MOST_EVENTS_OF_CLIENT, "client = ?", event.client)
    keep_newest(database, "events", MOST_EVENTS)
