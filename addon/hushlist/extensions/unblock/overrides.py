"""Temporary unblocks: grants, the codes and tries that lead to them, and the history of both.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, Overrides(Path(folder) / "state.sqlite", lambda: 0.0) as overrides:
...     code = overrides.make_code("host", 1800)
...     grant = overrides.redeem(code, "192.0.2.7", {"host": "games.example"})
...     overrides.covering(["192.0.2.7"], b"www.games.example", b"http://www.games.example/", [], 60.0) == grant
True
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from threading import Lock

from hushlist.core.errors import one_line
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, read_text, rows_of, write_text
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.unblock import EVERYTHING, SITE
from hushlist.extensions.unblock.access_requests import (
    PATIENCE,
    AccessRequest,
    RequestState,
    UnansweredError,
    answer_request,
    file_request,
    kept_requests,
    newest_requests,
    waiting_request,
)
from hushlist.extensions.unblock.admin_blocks import NO_BLOCKS, AdminBlock, BlockTable
from hushlist.extensions.unblock.credentials import (
    CODE_KEPT,
    OWNER_LENGTH,
    Code,
    CodeError,
    CodeFault,
    Tokens,
    code_fault,
    hash_code,
    new_code,
)
from hushlist.extensions.unblock.grant_events import NEWEST_EVENTS, GrantEvent, record_event
from hushlist.extensions.unblock.grant_rows import (
    active_grants,
    add_block,
    add_grant,
    end_block,
    end_grant,
    held_blocks,
)
from hushlist.extensions.unblock.grants import FOR_GOOD, Grant, GrantTable, check_target
from hushlist.extensions.unblock.taps import Tap, follow_tap, make_taps
from hushlist.extensions.unblock.unblock_verdict import UnblockVerdict
from hushlist.extensions.unblock.wrong_tries import DAY, CountedTry, check_unlocked, count_try, forgive, take_back

#: what becomes of a damaged file: what was unblocked or used since is in no copy, so grants and codes do not come back
UNBLOCKS = DatabaseKind(
    package="hushlist.extensions.unblock",
    anew="it has no good copy, and all blocks of administrators are lost",
    restored="the blocks of {made} hold, but no grant and no code",
    copied_for="SELECT * FROM admin_blocks ORDER BY id",
    not_given_back=("grants", "codes"),
    tables=frozenset({"grants", "admin_blocks", "codes"}),
)
#: seconds after which ``covering`` checks for changes by another process
FRESHNESS = 0.25
#: seconds; a longer unblock should be a rule
LONGEST_UNBLOCK = 366 * 86400.0
#: seconds that a code is valid, unless its maker says otherwise
CODE_VALID = 86400.0
MOST_NONCES = 100_000
MOST_NONCES_OF_CLIENT = 1000
#: what one tap can answer to a request: minutes for its host, or no
DECLINE = "decline"
REQUEST_CHOICES = ("30", "120", DECLINE)
#: characters of a client's name; a longer one is replaced by its hash
_LONGEST_CLIENT = 300

_CODE = f"SELECT {', '.join(Code._fields)} FROM codes"  # noqa: S608
_MARKS = ", ".join("?" * len(Code._fields))
_NEW_CODE = f"INSERT INTO codes ({', '.join(Code._fields)}) VALUES ({_MARKS})"  # noqa: S608
_KEY = "SELECT value FROM keys WHERE name = 'key'"


class Overrides(UnblockVerdict):
    """The store of temporary unblocks; may be used from several threads.

    All methods but ``covering``, ``blocks_at``, ``last_request`` and ``known_tokens`` wait for the disk or the
    database: call them in a thread. They raise ``StoreError`` if it cannot be read or written.
    """

    def __init__(self, place: Path | PostgresAddress, clock: Callable[[], float], *, is_shared: bool = False) -> None:
        """``clock`` returns seconds since the epoch; ``StoreError`` if a file cannot be used.

        ``is_shared``: a client may come with its next request to another proxy, which has to know its grant by then.
        """
        self.place, self._is_shared = place, is_shared
        self._store, self._clock = open_store(place, UNBLOCKS, "unblock"), clock
        self._grants = self._store.follow(
            lambda database: GrantTable(active_grants(database, self._clock())), GrantTable(())
        )
        none: tuple[AdminBlock, ...] = ()
        self._blocked = self._store.follow(lambda database: held_blocks(database, self._clock()), none)
        nobody: Mapping[tuple[str, str], AccessRequest] = {}
        self._requests = self._store.follow(lambda database: newest_requests(database, self._clock()), nobody)
        self._key = self._store.follow(_key, None)
        self._covered, self._blocks = GrantTable(()), NO_BLOCKS
        #: whether somebody has a site with what its pages load, as far as the last look goes
        self.has_sites = False
        #: what was asked last
        self._last_requests = nobody
        self._checked = -math.inf
        #: the last write of this process, and the last that a look has seen
        self._written = object()
        self._seen: object = None
        self._lock = Lock()
        self._fault: str | None = None

    def __enter__(self) -> Overrides:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, seconds: float) -> None:
        """Wait at most so long until it is known what the store has; a file is read when it is looked at."""
        self._store.wait(seconds)

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _writing(self) -> Iterator[tuple[SqlConnection, float]]:
        """A transaction, and the time of its beginning; ``covering`` sees its changes as soon as it ends."""
        with self._store.writing() as database:
            yield database, self._clock()
        self._written = object()

    # -- for each request ----------------------------------------------------------------------------------------------

    def covering(
        self,
        client_names: Iterable[str],
        host: bytes,
        url: bytes,
        categories: Iterable[str],
        now: float,
        *,
        is_warning: bool = False,
        since: float = -math.inf,
    ) -> Grant | None:
        """The grant that lets a client pass; of several, the one that lasts longest.

        ``host`` and ``url`` are canonical; ``categories`` are those of the rule that blocked or warned. A click on a
        warning counts only if ``is_warning``, and a grant only if it was made after ``since``. All belong to one form:
        if a request has several names or interpretations, each blocked one needs a grant of its own.

        Does not wait, and raises nothing; ``fault`` says what is wrong with the store.
        """
        if self._is_shared:
            self._seen = None
        self._look(now)
        names = map(_name, client_names)
        return self._covered.find(names, host, url, categories, now, is_warning=is_warning, since=since)

    def site_of(self, client_names: Iterable[str], host: bytes, now: float) -> Grant | None:
        """The grant by which a client has a canonical host with what its pages load; as ``covering``."""
        self._look(now)
        return self._covered.site(map(_name, client_names), host, now)

    def blocks_at(self, now: float) -> BlockTable:
        """The blocks of administrators; the same object while they are the same.

        Does not wait, and raises nothing: if the file cannot be read, those last known hold, and ``fault`` says why.
        """
        self._look(now)
        return self._blocks

    def _look(self, now: float) -> None:
        """Check for changes, unless that was done a moment ago and this process has written nothing since."""
        if self._seen is self._written and 0 <= now - self._checked < FRESHNESS:
            return
        # a look counts when it has ended: until then, another thread looks for itself
        with self._lock, suppress(BlockingIOError):  # the last state is probably still right
            written = self._written
            self._covered, grants_fault = self._grants.look()
            self.has_sites = self._covered.has_sites
            blocks, fault = self._blocked.look()
            self._fault = grants_fault or fault
            if fault is None and blocks != self._blocks.blocks:
                self._blocks = BlockTable(blocks) if blocks else NO_BLOCKS
            self._checked, self._seen = now, written

    @property
    def fault(self) -> str | None:
        """The problem of the store, if there is one, since ``covering`` raises nothing.

        With that of a file, nothing is covered; with that of a database, what is known of it goes on.
        """
        self._look(self._clock())
        return self._fault

    # -- grants --------------------------------------------------------------------------------------------------------

    def grant(
        self, scope: str, target: str, seconds: float | None, *, client: str | None = None, how: str, by: str
    ) -> Grant:
        """Unblock a canonical target for a while, or for good (``None``); ``client`` is ``None`` for everybody.

        Raises:
            ValueError: a grant cannot have that scope, target or time.
            StoreError: also if the store is full.
        """
        check_target(scope, target)
        if seconds is not None:
            _check_seconds(seconds)
        with self._writing() as (database, now):
            until = FOR_GOOD if seconds is None else now + seconds
            return self._add(database, Grant(0, scope, target, _name_or_all(client), until, how, by, now))

    def _add(self, database: SqlConnection, wanted: Grant) -> Grant:
        return add_grant(database, wanted, self._store.path)

    def revoke(self, number: int, *, by: str) -> Grant | None:
        """End a grant; ``None`` if there was none."""
        with self._writing() as (database, now):
            return end_grant(database, number, now, by)

    def active(self, now: float) -> list[Grant]:
        """The grants still valid, the newest first."""
        with self._store.reading() as database:
            return active_grants(database, now)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def block(
        self,
        scope: str,
        target: str,
        seconds: float | None,
        *,
        client: str | None = None,
        reason: str | None = None,
        by: str,
    ) -> AdminBlock:
        """Block a canonical target for a while, or for good (``None``); ``client`` is ``None`` for everybody.

        One of the same target stays, and holds on when this one ends. Grants made later let through all the same.

        Raises:
            ValueError: a block cannot have that scope, target or time.
            StoreError: also if the store is full.
        """
        if scope == SITE:
            raise ValueError("what a site loads is granted, and not blocked: block its host")
        if scope == EVERYTHING and seconds is None:
            raise ValueError("a block of everything has an end")
        check_target(scope, target)
        if seconds is not None:
            _check_seconds(seconds)
        with self._writing() as (database, now):
            until = None if seconds is None else now + seconds
            wanted = AdminBlock(0, scope, target, _name_or_all(client), until, reason, by, now)
            return add_block(database, wanted, self._store.path)

    def end_block(self, number: int, *, by: str) -> AdminBlock | None:
        """End a block; ``None`` if there was none."""
        with self._writing() as (database, now):
            return end_block(database, number, now, by)

    def blocks(self) -> list[AdminBlock]:
        """The blocks that hold, the newest first."""
        with self._store.reading() as database:
            return list(held_blocks(database, self._clock()))

    # -- requests for access -------------------------------------------------------------------------------------------

    def ask(self, wanted: AccessRequest) -> AccessRequest:
        """Store a request for access, with the time as its moment; made more than once, if it waits already.

        Raises:
            ValueError: nothing could be granted for it.
            AskedTooOftenError: the client, or all clients, have asked too often.
        """
        for scope, target in wanted.targets.items():
            check_target(scope, target)
        with self._writing() as (database, now):
            client, address = _name(wanted.client), _name(wanted.address)
            request = replace(wanted, client=client, address=address, reason=one_line(wanted.reason), asked=now)
            filed = file_request(database, replace(request, until=now + PATIENCE))
            if filed.times == 1:
                record_event(database, _answer_event(now, "asked", filed, filed.reason, filed.client))
        return filed

    def last_request(self, client: str, host: str) -> AccessRequest | None:
        """What a client last asked for a host, if a page has to tell of it; as ``covering``, it does not wait."""
        now = self._clock()
        with suppress(BlockingIOError):  # the last known state is probably still right
            self._last_requests, _ = self._requests.look()
        request = self._last_requests.get((_name(client), host))
        request = None if request is None else request.at(now)
        return request if request is not None and request.is_told(now) else None

    def requests(self, *, waiting: bool = True) -> list[AccessRequest]:
        """The requests that wait for an answer, or all that are kept; the newest first."""
        with self._store.reading() as database:
            return list(kept_requests(database, self._clock(), waiting=waiting))

    def approve(self, number: int, scope: str, seconds: float, *, by: str) -> Grant:
        """Grant a request that waits, to the client that made it.

        Raises:
            ValueError: a grant cannot have that scope or time.
            UnansweredError: there is no such request, it does not wait any longer, or it has no target of that scope.
            StoreError: also if the store is full.
        """
        check_target(scope, None)
        _check_seconds(seconds)
        with self._writing() as (database, now):
            return self._approve(database, number, scope, seconds, now, by)

    def _approve(self, database: SqlConnection, number: int, scope: str, seconds: float, now: float, by: str) -> Grant:
        request = answer_request(database, number, RequestState.GRANTED, now, by)
        if scope not in request.targets:
            raise UnansweredError(f"{number}: the rule that blocks it has no category")
        until = now + seconds
        return self._add(database, Grant(0, scope, request.targets[scope], request.client, until, "request", by, now))

    def decline(self, number: int, word: str | None = None, *, by: str) -> AccessRequest:
        """Decline a request, perhaps with a word for whoever made it; ``UnansweredError`` if no such request waits."""
        with self._writing() as (database, now):
            return _decline(database, number, one_line(word or "") or None, now, by)

    def taps_of(self, number: int, recipient: str) -> dict[str, str]:
        """A token for each of ``REQUEST_CHOICES`` about a request, for who gets a notice of it."""
        with self._writing() as (database, now):
            return make_taps(database, f"request:{number}", REQUEST_CHOICES, recipient, now, now + PATIENCE)

    def tapped(self, token: str, *, acts: bool) -> tuple[str, AccessRequest]:
        """What a token about a request chooses, and the request; with ``acts``, it is answered so.

        Raises:
            TapError: nothing was done; where it was to be, the history says so.
            StoreError: also if the store is full; the token is not used then.
        """

        def answer(database: SqlConnection, tap: Tap, number: int, now: float) -> AccessRequest:
            request = waiting_request(database, number, now)
            if acts and tap.choice == DECLINE:
                _decline(database, number, None, now, tap.by)
            elif acts:
                self._approve(database, number, "host", 60.0 * int(tap.choice), now, tap.by)
            return request

        tap, request = follow_tap(self._writing() if acts else self._looking(), token, "request", answer, acts=acts)
        return tap.choice, request

    @contextmanager
    def _looking(self) -> Iterator[tuple[SqlConnection, float]]:
        with self._store.reading() as database:
            yield database, self._clock()

    # -- codes ---------------------------------------------------------------------------------------------------------

    def make_code(
        self,
        scope: str,
        seconds: float,
        target: str | None = None,
        client: str | None = None,
        *,
        valid_for: float = CODE_VALID,
        by: str = "administrator",
    ) -> str:
        """A code for one grant of so many seconds; only the return value contains it.

        Without a target, it is good for any blocked target of its scope; without a client, for the first client that
        uses it. ``ValueError`` if a grant cannot have that scope, target or time.
        """
        check_target(scope, target)
        _check_seconds(seconds)
        _check_seconds(valid_for)
        text, key = new_code(), self.key()
        with self._writing() as (database, now):
            code = Code(hash_code(key, text), scope, target, _name_or_all(client), seconds, now + valid_for, by)
            database.execute("DELETE FROM codes WHERE until <= ?", (now - CODE_KEPT,))
            database.execute(_NEW_CODE, code)
            record_event(database, GrantEvent(now, "code made", code.client, scope, target, "code", by))
        return text

    def code_hash(self, code: str) -> bytes:
        """What is stored of a code."""
        return hash_code(self.key(), code)

    def redeem(self, code: str, client: str, wanted: Mapping[str, str], names: Sequence[str] = ()) -> Grant:
        """Turn a code into a grant for a client, once.

        ``wanted`` has the canonical target of each blocked scope: ``host``, ``site``, ``url`` and perhaps ``category``.
        ``names`` are the client's other names, and that of its group: a code may be for any of them, and one for a
        group is for the first of it that uses it. Wrong, used and old codes count as wrong
        tries; a code for something else stays valid.

        Raises:
            CodeError: the code is refused.
            LockedError: there were too many wrong tries; the code was not checked.
        """
        client, key = _name(client), self.key()
        with self._writing() as (database, now):
            check_unlocked(database, client, now, of_all=False)
            issued = _find_code(database, hash_code(key, code))
            fault = code_fault(issued, (client, *map(_name, names)), wanted, now)
            if issued is not None and fault is None:
                forgive(database, client)
                database.execute("UPDATE codes SET used = ? WHERE hash = ?", (now, issued.hash))
                target = wanted[issued.scope] if issued.target is None else issued.target
                is_of_one = issued.client is not None and not issued.client.startswith("group:")
                whose, until = issued.client if is_of_one else client, now + issued.seconds
                return self._add(database, Grant(0, issued.scope, target, whose, until, "code", client, now))
            fault = fault or CodeFault.WRONG
            counts = fault not in (CodeFault.CLIENT, CodeFault.UNFIT)
            refused = count_try(database, client, now, of_all=False) if counts else None
            _record_refusal(database, now, client, f"code: {fault.value}", wanted, refused)
        raise CodeError(fault)

    def withdraw_code(self, code: str, *, by: str) -> bool:
        """Make an unused code invalid; whether there was one."""
        return self.withdraw_hash(self.code_hash(code), by=by)

    def withdraw_hash(self, hashed: bytes, *, by: str) -> bool:
        """Make the unused code of a hash invalid, which is all that is stored of it; whether there was one."""
        with self._writing() as (database, now):
            code = _find_code(database, hashed)
            if code is None or code.used is not None:
                return False
            database.execute("DELETE FROM codes WHERE hash = ?", (code.hash,))
            event = GrantEvent(now, "code withdrawn", code.client, code.scope, code.target, "code", by)
            record_event(database, event)
        return True

    def codes(self) -> list[Code]:
        """The codes that can still be used, the newest first."""
        with self._store.reading() as database:
            query = f"{_CODE} WHERE used IS NULL AND until > ? ORDER BY rowid DESC"
            return [Code(*row) for row in database.execute(query, (self._clock(),))]

    # -- tries ---------------------------------------------------------------------------------------------------------

    def attempt(self, client: str, how: str, verify: Callable[[], bool], wanted: Mapping[str, str]) -> bool:
        """The result of ``verify``, which may be slow; a wrong try is counted and recorded.

        Raises:
            LockedError: there were too many wrong tries; ``verify`` was not called.
            StoreError: ``verify`` was not called, or its result does not count.
        """
        client = _name(client)
        # Counted before the check: otherwise a hundred tries at once would all be checked before the first counts.
        with self._writing() as (database, now):
            check_unlocked(database, client, now)
            counted = count_try(database, client, now)
        right = verify()
        with self._writing() as (database, now):
            if right:
                take_back(database, counted)
            else:
                _record_refusal(database, now, client, how, wanted, counted)
        return right

    # -- weeks ---------------------------------------------------------------------------------------------------------

    def begin_week(self, monday: str) -> bool:
        """Note that a week has begun, as ``2026-12-21``; whether it is the first to say so since the week before."""
        # another clock may be a little ahead; what is later than the next week comes from one that was set back
        next_week = (date.fromisoformat(monday) + timedelta(days=7)).isoformat()
        with self._store.reading() as database:
            week = read_text(database, "week")
        if week is not None and monday <= week <= next_week:
            return False
        with self._store.writing() as database:
            query = (
                "INSERT INTO keys VALUES ('week', ?) ON CONFLICT (name) DO UPDATE SET value = ?"
                " WHERE keys.value < ? OR keys.value > ?"
            )
            return database.execute(query, (monday, monday, monday, next_week)).rowcount == 1 and week is not None

    # -- what is shown -------------------------------------------------------------------------------------------------

    def note_shown(self, queries: str, clients: str) -> None:
        """Note what the log of the proxies' policy keeps, for commands that know no policy."""
        if self.shown() != (queries, clients):
            with self._store.writing() as database:
                write_text(database, "shown", f"{queries} {clients}")

    def shown(self) -> tuple[str, str]:
        """What was noted last; everything is kept where no proxy has noted it."""
        with self._store.reading() as database:
            shown = read_text(database, "shown")
        queries, _, clients = ("keep keep" if shown is None else shown).partition(" ")
        return queries, clients

    # -- tokens --------------------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """32 random octets, made once, the same in every process."""
        with self._store.reading() as database:
            key = _key(database)
        if key is None:
            with self._store.writing() as database:
                new = (secrets.token_bytes(32),)
                database.execute("INSERT INTO keys VALUES ('key', ?) ON CONFLICT DO NOTHING", new)
                key = _key(database)
                assert key is not None
        return key

    def tokens(self) -> Tokens:
        """Makes and checks tokens, which all proxies of this store accept once."""
        return Tokens(self.key(), self._clock, self.spend)

    def known_tokens(self) -> Tokens | None:
        """``tokens`` without waiting; ``None`` while the key is not known."""
        with suppress(BlockingIOError):
            key, _ = self._key.look()
            return None if key is None else Tokens(key, self._clock, self.spend)
        return None

    def spend(self, nonce: bytes, until: float) -> bool:
        """Store a nonce until a time, as ``Tokens`` has it; whether it is new. Of too many, none counts as new."""
        with self._store.writing() as database:
            now = self._clock()  # what is valid for longer than a day comes from a clock that was set back
            database.execute("DELETE FROM nonces WHERE until <= ? OR until > ?", (now, now + DAY))
            if database.execute("SELECT count(*) FROM nonces").fetchone()[0] >= MOST_NONCES:
                return False
            of_client = nonce[:OWNER_LENGTH], nonce[:OWNER_LENGTH] + b"\xff" * len(nonce)
            query = "SELECT count(*) FROM nonces WHERE nonce BETWEEN ? AND ?"
            if database.execute(query, of_client).fetchone()[0] >= MOST_NONCES_OF_CLIENT:
                return False
            query = "INSERT INTO nonces VALUES (?, ?) ON CONFLICT DO NOTHING"
            return database.execute(query, (nonce, until)).rowcount == 1

    # -- history -------------------------------------------------------------------------------------------------------

    def history(self, limit: int) -> list[GrantEvent]:
        """The last events, the newest first."""
        with self._store.reading() as database:
            return [GrantEvent(*row) for row in database.execute(NEWEST_EVENTS, (limit,))]


def _decline(database: SqlConnection, number: int, word: str | None, now: float, by: str) -> AccessRequest:
    request = answer_request(database, number, RequestState.DECLINED, now, by, word)
    record_event(database, _answer_event(now, "declined", request, word or "", by))
    return request


def _find_code(database: SqlConnection, hashed: bytes) -> Code | None:
    row = database.execute(f"{_CODE} WHERE hash = ?", (hashed,)).fetchone()
    return None if row is None else Code(*row)


def _key(database: SqlConnection) -> bytes | None:
    return next((key for (key,) in rows_of(database.execute(_KEY), (bytes,))), None)


def _answer_event(at: float, what: str, request: AccessRequest, words: str, by: str) -> GrantEvent:
    how = f"request {request.id}: {words}" if words else f"request {request.id}"
    return GrantEvent(at, what, request.client, "host", request.host, how, by)


def _record_refusal(
    database: SqlConnection,
    now: float,
    client: str,
    how: str,
    wanted: Mapping[str, str],
    counted: CountedTry | None,
) -> None:
    scope = "url" if "url" in wanted else next(iter(wanted), None)
    target = None if scope is None else wanted[scope].encode("ascii", "backslashreplace").decode("ascii")
    record_event(database, GrantEvent(now, "refused", client, scope, target, how, client))
    if counted is not None and counted.last:
        record_event(database, GrantEvent(now, "locked", client, None, None, "too many wrong tries", client))


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds <= LONGEST_UNBLOCK:
        raise ValueError(f"{seconds:g} seconds: expected more than none, and at most {LONGEST_UNBLOCK:g}")


def _name(client: str) -> str:
    """A client's name as stored: without lone surrogates and NUL, and of limited length."""
    octets = client.encode("utf-8", "surrogatepass")
    if len(client) <= _LONGEST_CLIENT and octets.decode("utf-8", "replace") == client and "\0" not in client:
        return client
    return f"sha256:{hashlib.sha256(octets).hexdigest()}"


def _name_or_all(client: str | None) -> str | None:
    return None if client is None else _name(client)
