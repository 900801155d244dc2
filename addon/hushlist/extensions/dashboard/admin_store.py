"""The administrators' store: who is signed in, tokens of programs, and the record of what was done.

Of sessions and tokens, it keeps hashes alone: whoever reads it cannot act by it. They are random, so a fast hash
does. A session ends at its time, when somebody ends it, and when its person's passphrase or name in the policy changes.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hushlist.core.routes import Account, ActionError, Role
from hushlist.core.system.files import state_folder
from hushlist.extensions.dashboard.admin_keys import DAY, AdminPerson
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, keep_newest
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.unblock.wrong_tries import HOUR, LockedError, check_unlocked, count_try, take_back

#: seconds that a session lasts
SESSION = 12 * 3600.0
#: seconds for which a browser is known in which somebody has signed in, and most of one person
DEVICE = 180 * 86400.0
MOST_DEVICES = 50
#: wrong tries at one name within an hour by browsers and from addresses that are not known for it
MOST_TRIES_OF_NAME = 20
#: by what somebody is known who tries to sign in: a browser or an address in which that person has, or neither
BY_BROWSER, BY_ADDRESS, STRANGER = range(3)
#: how the token of a program begins, so that people and scanners know it
BEARER = "hushlist_"
#: most sessions of one person, most tokens, and most rows of the record
MOST_SESSIONS = 20
MOST_BEARERS = 1000
MOST_RECORDED = 10_000
#: what becomes of a damaged file: who was signed out or lost a token since is in no copy, so nobody is signed in
ADMINISTRATION = DatabaseKind(
    package="hushlist.extensions.dashboard",
    anew="without a good copy, the record of what was done is lost; sign in, and make tokens of programs anew",
    restored="the record of {made} is there; sign in, and make tokens of programs anew",
    copied_for="SELECT count(*), max(id), max(at), count(undone) FROM record",
    not_given_back=("sessions", "bearers"),
    tables=frozenset({"sessions", "bearers", "record"}),
)


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is signed in."""

    id: int
    name: str
    client: str
    made: float
    until: float


class Bearer(NamedTuple):
    """A program's token; only its maker has seen it."""

    id: int
    name: str
    role: str
    by: str
    made: float
    until: float


class RecordedAction(NamedTuple):
    """Something that was done."""

    id: int
    at: float
    who: str
    client: str
    what: str
    detail: dict[str, object]
    #: the role that may undo it, and how; ``None`` if it cannot be undone
    role: Role | None
    undo: dict[str, object] | None
    undone: float | None
    undone_by: str | None


def account_of(person: AdminPerson, client: str) -> Account:
    """Somebody who is named in the policy, at an address."""
    longest = None if person.role.may(Role.MANAGE) else person.longest
    return Account(person.name, person.role, client, longest, person.groups)


def default_path() -> Path:
    """The file of the proxies and the command line."""
    return state_folder() / "admin.sqlite"


class AdminStore:
    """A file, or a database; the methods wait for it, and raise ``StoreError`` if it cannot be read or written."""

    def __init__(self, place: Path | PostgresAddress, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self._store, self._clock = open_store(place, ADMINISTRATION, "admin"), clock

    def __enter__(self) -> AdminStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    # -- people --------------------------------------------------------------------------------------------------------

    def sign_in(self, person: AdminPerson, client: str, *, is_secure: bool) -> str:
        """A new session's token, which only the return value contains; ``is_secure``: it is for https alone."""
        token = secrets.token_urlsafe(32)
        with self._store.writing() as database:
            now = self._clock()
            database.execute("DELETE FROM sessions WHERE until <= ?", (now,))
            row = (_hash(token), person.name, _proof(person), int(is_secure), client, now, now + SESSION)
            names = "hash, name, proof, is_secure, client, made, until"
            database.execute(f"INSERT INTO sessions ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            keep_newest(database, "sessions", MOST_SESSIONS, "name = ?", person.name)
        return token

    def account(self, token: str, people: Iterable[AdminPerson], client: str, *, is_secure: bool) -> Account | None:
        """Whose session a token is of; ``None`` if it is of none that holds."""
        query = "SELECT name, proof FROM sessions WHERE hash = ? AND is_secure = ? AND until > ? AND made <= ?"
        with self._store.reading() as database:
            now = self._clock()
            row = database.execute(query, (_hash(token), int(is_secure), now, now + 60)).fetchone()
        person = next((candidate for candidate in people if row is not None and candidate.name == row[0]), None)
        if person is None or not secrets.compare_digest(_proof(person), row[1]):
            return None
        return account_of(person, client)

    def sign_out(self, token: str) -> None:
        with self._store.writing() as database:
            database.execute("DELETE FROM sessions WHERE hash = ?", (_hash(token),))

    def sessions(self) -> list[Session]:
        """Who is signed in, the newest first."""
        query = "SELECT id, name, client, made, until FROM sessions WHERE until > ? ORDER BY id DESC"
        with self._store.reading() as database:
            return [Session(*row) for row in database.execute(query, (self._clock(),))]

    def end_session(self, number: int) -> bool:
        """End a session by its number; whether there was one."""
        with self._store.writing() as database:
            return database.execute("DELETE FROM sessions WHERE id = ?", (number,)).rowcount == 1

    # -- wrong tries ---------------------------------------------------------------------------------------------------

    def try_sign_in(self, name: str, client: str, device: str, verify: Callable[[], bool], *, is_near: bool) -> bool:
        """The result of ``verify``, which may be slow; a wrong try is counted.

        Each address and each known browser has a few tries, then it is locked. Whoever has many addresses is stopped
        by the number of tries at a name. That stops no browser and no address from which its owner has signed in, and
        nobody at the machine itself (``is_near``): else a stranger could keep the owner out by guessing.
        ``LockedError`` if there were too many wrong tries; ``verify`` was not called.
        """
        of_name = f"name:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"
        # counted before the check: otherwise a hundred tries at once would all be checked before the first counts
        with self._store.writing() as database:
            now = self._clock()
            acquaintance, asker = _acquaintance(database, name, client, device, now)
            keys, row = (asker, f"{asker} {of_name}"), None  # who may sign in by another name buys no tries at this one
            for key in keys:
                check_unlocked(database, key, now, of_all=False)
            counted = [count_try(database, key, now) for key in keys]
            if acquaintance == STRANGER and not is_near:
                query = "SELECT at FROM tries WHERE client = ? AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?"
                for (at,) in database.execute(query, (of_name, now - HOUR, MOST_TRIES_OF_NAME - 1)).fetchall():
                    raise LockedError(client, at + HOUR)
                query = "INSERT INTO tries (at, client) VALUES (?, ?) RETURNING id"
                (row,) = database.execute(query, (now, of_name)).fetchone()
        right = verify()
        if right:
            with self._store.writing() as database:
                for attempt in counted:
                    take_back(database, attempt)
                database.execute("DELETE FROM tries WHERE id = ?", (row,))
        return right

    def acquaintance(self, name: str, client: str, device: str) -> tuple[int, str]:
        """By what somebody is known who tries to sign in, and which that is."""
        with self._store.reading() as database:
            return _acquaintance(database, name, client, device, self._clock())

    def know_device(self, name: str, client: str, device: str) -> str:
        """Note the browser and the address from which somebody has signed in; the browser's token, which may be new."""
        with self._store.writing() as database:
            now = self._clock()
            database.execute("DELETE FROM devices WHERE until <= ?", (now,))
            is_ours = database.execute("SELECT 1 FROM devices WHERE hash = ?", (_hash(device),)).fetchone() is not None
            token = device if is_ours else secrets.token_urlsafe(32)
            database.execute("DELETE FROM devices WHERE hash = ? AND name = ?", (_hash(token), name))
            row = (_hash(token), name, client, now + DEVICE)
            database.execute("INSERT INTO devices (hash, name, client, until) VALUES (?, ?, ?, ?)", row)
            keep_newest(database, "devices", MOST_DEVICES, "name = ?", name)
        return token

    # -- programs ------------------------------------------------------------------------------------------------------

    def make_bearer(self, name: str, role: Role, seconds: float, *, by: str) -> str:
        """A new token for a program, told here alone; ``ActionError`` if the name is taken, or there are too many."""
        token = BEARER + secrets.token_urlsafe(32)
        with self._store.writing() as database:
            now = self._clock()
            database.execute("DELETE FROM bearers WHERE until <= ?", (now,))
            (number,) = database.execute("SELECT count(*) FROM bearers").fetchone()
            if number >= MOST_BEARERS:
                raise ActionError(f"there are {number} tokens already")
            row = (_hash(token), name, role.value, by, now, now + seconds)
            query = "INSERT INTO bearers (hash, name, role, by, made, until) VALUES (?, ?, ?, ?, ?, ?)"
            if not database.execute(f"{query} ON CONFLICT DO NOTHING", row).rowcount:
                raise ActionError(f"{name!r}: a token has this name; revoke it first")
        return token

    def bearer(self, token: str, client: str) -> Account | None:
        """Whose token it is; ``None`` if it is none."""
        with self._store.reading() as database:
            # not where it would last twice as long, since the clock was set back
            query = "SELECT name, role FROM bearers WHERE hash = ? AND until > ? AND 2 * made - until <= ?"
            row = database.execute(query, (_hash(token), now := self._clock(), now)).fetchone()
        role = None if row is None else _role(row[1])
        if row is None or role is None:
            return None
        return Account(f"token:{row[0]}", role, client, None if role.may(Role.MANAGE) else DAY)

    def bearers(self) -> list[Bearer]:
        """The tokens that can be used, the newest first."""
        query = "SELECT id, name, role, by, made, until FROM bearers WHERE until > ? ORDER BY id DESC"
        with self._store.reading() as database:
            return [Bearer(*row) for row in database.execute(query, (self._clock(),))]

    def revoke_bearer(self, name: str) -> bool:
        """Make a token worthless; whether there was one of that name."""
        with self._store.writing() as database:
            return database.execute("DELETE FROM bearers WHERE name = ?", (name,)).rowcount == 1

    # -- the record ----------------------------------------------------------------------------------------------------

    def begin(self, account: Account, what: str, detail: Mapping[str, object]) -> int:
        """Write down what somebody is about to do, and return the row's number: what cannot be recorded is not done.

        ``record`` then says what was done, and ``strike`` that nothing was; without either, the row stays as it is.
        """
        return self.record(account, f"began to {what}", detail)

    def strike(self, begun: int) -> None:
        """Take back that somebody is about to do something."""
        with self._store.writing() as database:
            database.execute("DELETE FROM record WHERE id = ?", (begun,))

    def record(
        self,
        account: Account,
        what: str,
        detail: Mapping[str, object],
        role: Role | None = None,
        undo: Mapping[str, object] | None = None,
        begun: int | None = None,
    ) -> int:
        """Write down what was done, in the row that ``begin`` has made, if so; returns its number.

        The oldest rows go if there are too many.
        """
        plain = json.dumps(detail), role, None if undo is None else json.dumps(undo)
        with self._store.writing() as database:
            row = (self._clock(), account.name, account.client, what, *plain)
            if begun is not None:
                query = "UPDATE record SET at = ?, who = ?, client = ?, what = ?, detail = ?, role = ?, undo = ?"
                database.execute(f"{query} WHERE id = ?", (*row, begun))
                return begun
            query = "INSERT INTO record (at, who, client, what, detail, role, undo) VALUES (?, ?, ?, ?, ?, ?, ?)"
            (number,) = database.execute(f"{query} RETURNING id", row).fetchone()
            keep_newest(database, "record", MOST_RECORDED)
        return int(number)

    def recorded(self, limit: int = 200) -> list[RecordedAction]:
        """What was done, the newest first."""
        with self._store.reading() as database:
            query = "SELECT * FROM record ORDER BY id DESC LIMIT ?"
            return [_recorded(row) for row in database.execute(query, (limit,))]

    def recorded_action(self, number: int) -> RecordedAction | None:
        with self._store.reading() as database:
            row = database.execute("SELECT * FROM record WHERE id = ?", (number,)).fetchone()
        return None if row is None else _recorded(row)

    def mark_undone(self, number: int, by: str) -> bool:
        """Note that something is undone; false if it was so before."""
        with self._store.writing() as database:
            query = "UPDATE record SET undone = ?, undone_by = ? WHERE id = ? AND undone IS NULL"
            return database.execute(query, (self._clock(), by, number)).rowcount == 1

    def unmark_undone(self, number: int) -> None:
        """Take that back: it could not be undone."""
        with self._store.writing() as database:
            database.execute("UPDATE record SET undone = NULL, undone_by = NULL WHERE id = ?", (number,))


def _recorded(row: tuple[object, ...]) -> RecordedAction:
    """A row, which another version may have written: what cannot be understood cannot be undone."""
    number, at, who, client, what, detail, role, undo, undone, undone_by = row
    return RecordedAction(
        *(number, at, who, client, what),  # type: ignore[arg-type]  # the table's own types
        _object(detail) or {},
        _role(role),
        _object(undo),
        *(undone, undone_by),  # type: ignore[arg-type]
    )


def _object(text: object) -> dict[str, object] | None:
    """An object of JSON; ``None`` if it is none, or has numbers that JSON has not."""
    try:
        plain = json.loads(str(text))
        json.dumps(plain, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return plain if isinstance(plain, dict) else None


def _role(text: object) -> Role | None:
    return next((role for role in Role if role == text), None)


def _acquaintance(database: SqlConnection, name: str, client: str, device: str, now: float) -> tuple[int, str]:
    query = "SELECT hash = ? FROM devices WHERE name = ? AND until > ? AND (hash = ? OR client = ?)"
    devices = database.execute(query, (_hash(device), name, now, _hash(device), client)).fetchall()
    if (1,) in devices:
        return BY_BROWSER, f"device:{_hash(device).hex()}"
    return BY_ADDRESS if devices else STRANGER, f"address:{client}"


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _proof(person: AdminPerson) -> bytes:
    """What changes with a person's passphrase."""
    return hashlib.sha256(person.passphrase.encode()).digest()
