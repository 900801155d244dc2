"""SQL that SQLite and PostgreSQL read alike, what a connection to either can do, and why a store cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from hushlist.core.errors import HushlistError
from hushlist.extensions.databases.postgres_address import PostgresAddress

#: the application ID in the header of a file, and of locks in a database, "Hush": another program's must not be changed
APPLICATION = 0x48757368
#: whether a row is for a client, or for everybody: takes the client or ``None``, and whether it is ``None``. SQLite's
#: ``IS`` is no SQL elsewhere, and its ``IS NOT DISTINCT FROM`` is new
SAME_CLIENT = "coalesce(client, '') = coalesce(?, '') AND (client IS NULL) = ?"


class StoreError(HushlistError):
    """A store cannot be read or written; its text has no password.

    >>> str(StoreError(Path("state.sqlite"), "file is not a database"))
    'state.sqlite: file is not a database'
    """

    def __init__(self, path: Path | PostgresAddress, reason: str, code: str = "") -> None:
        self.path, self.reason = path, reason
        #: SQLSTATE, if a server refused
        self.code = code
        super().__init__(f"{path}: {reason}")


class BadRowError(HushlistError):
    """A row has values that no Hushlist writes; a store turns it into a ``StoreError``."""


class SqlResult(Protocol):
    """The rows of a query."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """What SQLite's connections and those to PostgreSQL have in common; queries have question marks."""

    def execute(self, query: str, values: Sequence[Any] = (), /) -> SqlResult: ...
    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> object: ...


def read_text(database: SqlConnection, name: str) -> str | None:
    """A text of the table of keys; ``None`` if there is none of that name."""
    row = database.execute("SELECT value FROM keys WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    (value,) = row
    return value if isinstance(value, str) else bytes(value).decode()  # PostgreSQL gives octets


def write_text(database: SqlConnection, name: str, text: str) -> None:
    """Put a text into the table of keys, in the place of the one that has that name."""
    query = "INSERT INTO keys VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?"
    database.execute(query, (name, text, text))


def rows_of(rows: Iterable[tuple[Any, ...]], kinds: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of which each value is of its kind; ``BadRowError`` if one is not, as of a file that is damaged."""
    for row in rows:
        if not all(map(isinstance, row, kinds)):
            raise BadRowError("a row has values that no Hushlist writes")
        yield row


def keep_newest(database: SqlConnection, table: str, most: int, which: str = "TRUE", *values: object) -> None:
    """Remove the oldest rows of a table, of those that a condition fits, until there are ``most`` of them."""
    newest = f"SELECT id FROM {table} WHERE {which} ORDER BY id DESC LIMIT 1 OFFSET ?"  # noqa: S608
    database.execute(f"DELETE FROM {table} WHERE {which} AND id <= ({newest})", (*values, *values, most))  # noqa: S608
