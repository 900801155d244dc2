"""Requests for access: what blocked people ask for, and what they were answered.

The functions work within the caller's transaction. A person who asks again for the same host, while nobody has
answered, adds to the first request. The number of rows is limited: for each client, for each day, and in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from hushlist.core.errors import HushlistError
from hushlist.core.routes import MissingError
from hushlist.extensions.databases.sql import SqlConnection
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.unblock import SITE

#: requests of one client that may wait, and that it may make within a day
MOST_WAITING_OF_CLIENT = 5
MOST_OF_CLIENT = 20
#: requests of all clients that may wait: many addresses do not help
MOST_WAITING = 200
#: requests that are kept, and seconds for which they are
MOST_KEPT = 2000
KEPT = 7 * 86400.0
_DAY = 86400.0
#: seconds that a request waits for an answer
PATIENCE = _DAY
#: seconds after a refusal in which the client cannot ask for the same host
REST = 3600.0
#: in place of a ``clients``: who answers sees who asks, whatever the log may have
NAMED = "named"
#: characters of a reason, and of the word of who declines
LONGEST_REASON = 300


class RequestState(StrEnum):
    """What became of a request."""

    WAITING = "waiting"
    GRANTED = "granted"
    DECLINED = "declined"
    #: nobody answered in time
    EXPIRED = "expired"


class AskedTooOftenError(HushlistError):
    """A client has asked too often, or all clients have."""


class UnansweredError(MissingError):
    """A request cannot be answered."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request. Times are seconds since the epoch."""

    #: never used again
    id: int
    #: whom a grant would be for: an address, or a name such as ``user:jo``
    client: str
    address: str
    group: str | None
    #: what a grant can be for; the URL is the first that was asked for, of which people were told
    host: str
    url: str
    category: str | None
    #: the person's own words, as one line; may be empty
    reason: str
    asked: float
    #: when it expires
    until: float
    #: how often it was made
    times: int = 1
    state: RequestState = RequestState.WAITING
    decided: float | None = None
    #: who answered, and with which words
    by: str | None = None
    word: str | None = None
    #: how the page has said that who asks is shown: as the log's ``clients``, or by name whatever that is
    seen: str = LoggedClients.KEEP.value

    @property
    def user(self) -> str | None:
        """The user's name, if the proxy knows one."""
        return self.client.removeprefix("user:") if self.client.startswith("user:") else None

    @property
    def targets(self) -> dict[str, str]:
        """What a grant can have as its target, by scope."""
        return {"host": self.host, SITE: self.host, "url": self.url} | (
            {} if self.category is None else {"category": self.category}
        )

    def at(self, now: float) -> AccessRequest:
        """The request at a moment, when it may have expired.

        A time farther in the future than requests have comes from a clock that was set back.
        """
        is_over = self.state == RequestState.WAITING and not 0 < self.until - now <= 2 * PATIENCE
        return replace(self, state=RequestState.EXPIRED) if is_over else self

    def is_told(self, now: float) -> bool:
        """Whether a page has to tell what became of it: it waits, nobody answered, or it was declined lately."""
        if self.state == RequestState.DECLINED:
            return abs(now - (self.decided or now)) < REST  # later: of a clock that was set back
        return self.state in (RequestState.WAITING, RequestState.EXPIRED)


_NAMES = [field.name for field in fields(AccessRequest)]
_COLUMNS = ", ".join({"group": "in_group"}.get(name, name) for name in _NAMES)
_SELECT = f"SELECT {_COLUMNS} FROM access_requests"  # noqa: S608 - names of columns
_MARKS = ", ".join("?" * (len(_NAMES) - 1))
_ADDED = _COLUMNS.removeprefix("id, ")
_INSERT = f"INSERT INTO access_requests ({_ADDED}) VALUES ({_MARKS}) RETURNING id"  # noqa: S608
_WAITS = "state = 'waiting' AND until > ? AND until <= ?"


def file_request(database: SqlConnection, wanted: AccessRequest) -> AccessRequest:
    """Add a request, or add it to one for the same host that still waits; then it is made more than once.

    Raises:
        AskedTooOftenError: the client, or all clients, have asked too often.
    """
    now = wanted.asked
    database.execute("DELETE FROM access_requests WHERE asked <= ? OR asked > ?", (now - KEPT, now + _DAY))
    before = _last(database, wanted.client, wanted.host)
    if before is not None and before.at(now).state == RequestState.WAITING:
        both = replace(before, reason=wanted.reason or before.reason, times=before.times + 1)
        values = (both.reason, both.times, both.id)
        database.execute("UPDATE access_requests SET reason = ?, times = ? WHERE id = ?", values)
        return both
    if before is not None and before.state == RequestState.DECLINED and before.is_told(now):
        raise AskedTooOftenError(f"{wanted.client!r}: it was declined a short time ago")
    span = (now, now + 2 * PATIENCE)
    _bound(database, f"client = ? AND {_WAITS}", (wanted.client, *span), MOST_WAITING_OF_CLIENT)
    _bound(database, "client = ? AND asked > ?", (wanted.client, now - _DAY), MOST_OF_CLIENT)
    _bound(database, _WAITS, span, MOST_WAITING)
    (number,) = database.execute(_INSERT, astuple(wanted)[1:]).fetchone()
    database.execute(
        f"DELETE FROM access_requests WHERE NOT ({_WAITS}) AND id <="  # noqa: S608
        " (SELECT id FROM access_requests ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (*span, MOST_KEPT),
    )
    return replace(wanted, id=number)


def _bound(database: SqlConnection, which: str, values: tuple[object, ...], most: int) -> None:
    (number,) = database.execute(f"SELECT count(*) FROM access_requests WHERE {which}", values).fetchone()  # noqa: S608
    if number >= most:
        raise AskedTooOftenError(f"there are {number} requests, and {most} are the most")


def _last(database: SqlConnection, client: str, host: str) -> AccessRequest | None:
    query = f"{_SELECT} WHERE client = ? AND host = ? ORDER BY id DESC LIMIT 1"
    row = database.execute(query, (client, host)).fetchone()
    return None if row is None else _of_row(row)


def _of_row(row: tuple[Any, ...]) -> AccessRequest:
    """A row; a state that another version wrote, and this one does not know, is that nobody answered."""
    request = AccessRequest(*row)
    is_known = request.state in RequestState._value2member_map_
    return replace(request, state=RequestState(request.state) if is_known else RequestState.EXPIRED)


def answer_request(
    database: SqlConnection, number: int, state: RequestState, now: float, by: str, word: str | None = None
) -> AccessRequest:
    """Answer a request that waits, once; ``UnansweredError`` if none of that number waits."""
    request = waiting_request(database, number, now)
    values = (state.value, now, by, word, number)
    database.execute("UPDATE access_requests SET state = ?, decided = ?, by = ?, word = ? WHERE id = ?", values)
    return replace(request, state=state, decided=now, by=by, word=word)


def waiting_request(database: SqlConnection, number: int, now: float) -> AccessRequest:
    """A request that waits; ``UnansweredError`` if none of that number does."""
    is_number = 0 < number < 1 << 63  # of SQLite
    row = database.execute(f"{_SELECT} WHERE id = ?", (number if is_number else 0,)).fetchone()
    if row is None:
        raise UnansweredError(f"{number}: there is no such request")
    request = _of_row(row).at(now)
    if request.state != RequestState.WAITING:
        by = f" by {request.by}" if request.by else ""
        raise UnansweredError(f"{number}: the request does not wait any longer, it is {request.state}{by}")
    return request


def kept_requests(database: SqlConnection, now: float, *, waiting: bool) -> Iterator[AccessRequest]:
    """The requests that are kept, or those of them that wait; the newest first."""
    which = " WHERE state = 'waiting'" if waiting else ""
    for row in database.execute(f"{_SELECT}{which} ORDER BY id DESC").fetchall():
        request = _of_row(row).at(now)
        if not waiting or request.state is RequestState.WAITING:
            yield request


def newest_requests(database: SqlConnection, now: float) -> Mapping[tuple[str, str], AccessRequest]:
    """What each client last asked for each host, and may still want to hear of; by client and host."""
    query = f"{_SELECT} WHERE until > ? OR decided > ? ORDER BY id"
    rows = database.execute(query, (now - PATIENCE, now - REST))
    return {(request.client, request.host): request for request in map(_of_row, rows)}
