"""The rows of grants and blocks in a store; the functions work within the caller's transaction."""

from __future__ import annotations

from pathlib import Path

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SAME_CLIENT, SqlConnection, StoreError, rows_of
from hushlist.extensions.unblock.admin_blocks import AdminBlock
from hushlist.extensions.unblock.grant_events import GrantEvent, record_event
from hushlist.extensions.unblock.grants import WARNING, Grant
from hushlist.extensions.unblock.wrong_tries import DAY

#: most grants of one client, and of all clients; grants for everybody, which only an administrator makes,
#: do not count, so that a flood of others cannot keep them out
MOST_GRANTS_OF_CLIENT = 100
MOST_GRANTS = 2000
#: most blocks: a request may be compared with all of them
MOST_BLOCKS = 1000

_COLUMNS = "id, scope, target, client, until, how, by, made"
_ACTIVE = f"SELECT {_COLUMNS} FROM grants WHERE until > ? ORDER BY id DESC"  # noqa: S608 - names of columns
_BLOCKED = (
    "SELECT id, scope, target, client, until, reason, by, made FROM admin_blocks"
    " WHERE until IS NULL OR until > ? ORDER BY id DESC"
)
#: what each value of such a row is
_GRANT = (int, str, str, str | None, float, str, str, float)
_BLOCK = (int, str, str, str | None, float | None, str | None, str, float)
_NEW_BLOCK = "INSERT INTO admin_blocks (scope, target, client, until, reason, by, made) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT = "INSERT INTO grants (scope, target, client, until, how, by, made) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"
#: makes room by the click on a warning that ends first: anybody can click, from however many addresses
_FORGET_CLICK = (
    "DELETE FROM grants WHERE id ="
    " (SELECT id FROM grants WHERE how = ? AND client IS NOT NULL ORDER BY until, id LIMIT 1)"
)


def active_grants(database: SqlConnection, now: float) -> list[Grant]:
    """The grants still valid, the newest first."""
    return [Grant(*row) for row in rows_of(database.execute(_ACTIVE, (now,)), _GRANT)]


def held_blocks(database: SqlConnection, now: float) -> tuple[AdminBlock, ...]:
    """The blocks that hold, the newest first."""
    return tuple(AdminBlock(*row) for row in rows_of(database.execute(_BLOCKED, (now,)), _BLOCK))


def _make_room(database: SqlConnection, wanted: Grant) -> None:
    """Remove expired grants, those that a new one replaces, and the surplus of its client.

    A grant by a click on a warning replaces no grant that covers more.
    """
    database.execute("DELETE FROM grants WHERE until <= ?", (wanted.made,))
    database.execute(
        f"DELETE FROM grants WHERE {SAME_CLIENT} AND scope = ? AND target = ? AND until <= ? AND (how = ?) >= ?",  # noqa: S608
        (
            *(wanted.client, wanted.client is None, wanted.scope, wanted.target, wanted.until),
            *(WARNING, wanted.how == WARNING),
        ),
    )
    database.execute(
        "DELETE FROM grants WHERE id IN"
        " (SELECT id FROM grants WHERE client = ? ORDER BY until DESC, id DESC LIMIT ? OFFSET ?)",
        (wanted.client, MOST_GRANTS, MOST_GRANTS_OF_CLIENT - 1),
    )


def add_grant(database: SqlConnection, wanted: Grant, place: Path | PostgresAddress) -> Grant:
    """Store a grant, in the place of those that it replaces; ``StoreError`` of its place if the store is full."""
    _make_room(database, wanted)
    (others,) = database.execute("SELECT count(client) FROM grants").fetchone()
    is_full = wanted.client is not None and others >= MOST_GRANTS
    if is_full and not database.execute(_FORGET_CLICK, (WARNING,)).rowcount:
        raise StoreError(place, f"it is full: there are {others} grants for clients")
    values = (wanted.scope, wanted.target, wanted.client, wanted.until, wanted.how, wanted.by, wanted.made)
    (number,) = database.execute(_INSERT, values).fetchone()
    grant = Grant(number, *values)
    record_event(database, _event(grant.made, "granted", grant, grant.by))
    return grant


def end_grant(database: SqlConnection, number: int, now: float, by: str) -> Grant | None:
    """End a grant; ``None`` if there was none."""
    ended = next((grant for grant in active_grants(database, now) if grant.id == number), None)
    if ended is not None:
        database.execute("DELETE FROM grants WHERE id = ?", (number,))
        record_event(database, _event(now, "revoked", ended, by))
    return ended


def add_block(database: SqlConnection, wanted: AdminBlock, place: Path | PostgresAddress) -> AdminBlock:
    """Store a block, which is made after all grants that there are; ``StoreError`` if the store is full."""
    now = wanted.made
    database.execute("DELETE FROM admin_blocks WHERE until <= ?", (now,))
    (number,) = database.execute("SELECT count(*) FROM admin_blocks").fetchone()
    if number >= MOST_BLOCKS:
        raise StoreError(place, f"it is full: there are {number} blocks")
    # no grant that there is may seem later, by the clock of another machine
    query = "SELECT coalesce(max(made), ?) FROM grants WHERE made <= ?"
    (latest,) = database.execute(query, (now, now + DAY)).fetchone()
    values = (wanted.scope, wanted.target, wanted.client, wanted.until, wanted.reason, wanted.by, max(now, latest))
    (made,) = database.execute(f"{_NEW_BLOCK} RETURNING id", values).fetchone()
    block = AdminBlock(made, *values)
    record_event(database, _block_event(now, "blocked", block, block.by))
    return block


def end_block(database: SqlConnection, number: int, now: float, by: str) -> AdminBlock | None:
    """End a block; ``None`` if there was none."""
    ended = next((block for block in held_blocks(database, now) if block.id == number), None)
    if ended is not None:
        database.execute("DELETE FROM admin_blocks WHERE id = ?", (number,))
        record_event(database, _block_event(now, "block ended", ended, by))
    return ended


def _event(at: float, what: str, grant: Grant, by: str) -> GrantEvent:
    return GrantEvent(at, what, grant.client, grant.scope, grant.target, grant.how, by, grant.id)


def _block_event(at: float, what: str, block: AdminBlock, by: str) -> GrantEvent:
    return GrantEvent(at, what, block.client, block.scope, block.target, f"block {block.id}", by)
